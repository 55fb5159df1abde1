# A config.json of one string of 20 MB.
print('{"model_type": "' + 'a' * 20000000 + '"}')
