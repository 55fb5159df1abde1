# A tuple of a tuple of a tuple, 5000 deep.
print('"a.b"() : () -> (' + 'tuple<' * 5000 + 'i1' + '>' * 5000 + ')')
