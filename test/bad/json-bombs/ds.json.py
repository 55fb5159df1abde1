# A ds_config of 12 MB of empty objects.
print('{"optimizer":[' + '{},' * 4000000 + '{}]}')
