# A pattern of 100,000 brackets.
print('{"pipeline": {"partition": "type:' + 100000 * '(' + '"}}')
