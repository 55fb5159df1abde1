# A config.json of 10 MB of zeros.
print('{"model_type": [' + '0,' * 5000000 + '0]}')
