# A ds_config of 5000 objects in objects.
print('{"a":' * 5000, end="")
