# 5000 brackets.
print('(' * 5000, end="")
