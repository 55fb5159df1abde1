# A config.json of 100,000 objects in objects.
print('{"a":' * 100000, end="")
