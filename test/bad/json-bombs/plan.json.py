# A plan of 12 MB of empty lists.
print('{"cuts":[' + '[],' * 4000000 + '[]]}')
