# A config.json of 100,000 lists in lists.
print('{"model_type": ' + '[' * 100000, end="")
