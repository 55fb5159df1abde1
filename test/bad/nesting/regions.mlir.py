# 5000 modules in modules.
print('module {' * 5000 + '}' * 5000)
