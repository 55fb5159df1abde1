# An attribute of 5000 lists in lists.
print('module attributes {a = ' + '[' * 5000 + ']' * 5000 + '} {}')
