# Sharding rules of 100,000 brackets.
print('{"format_version": 1, "mesh": {"tp": 1, "pp": 1, "dp": 1}, "schedule": "1f1b", "partition_method": "parameters", "recompute": "none", "cuts": [], "inputs": [], "parameters": [{"match": "head", "sharding": "' + '[' * 100000 + '"}]}')
