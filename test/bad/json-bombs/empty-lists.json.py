# A config.json of 20 MB of empty lists.
print('{"model_type": [' + '[],' * 7000000 + '[]]}')
