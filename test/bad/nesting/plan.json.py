# A plan of 5000 lists in lists.
print('[' * 5000, end="")
