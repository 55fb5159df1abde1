"""Runs a compilation that must be refused for want of memory, then each change that the error proposes, which must fit.

Usage: apply-proposals.py FOLDER hyc-compile …
"""
import re
import subprocess
import sys

folder, command = sys.argv[1], sys.argv[2:]
refused = subprocess.run(command + ["-o", folder + "/refused"], capture_output=True, text=True)
print(refused.stderr, end="")
if refused.returncode != 65:
    sys.exit(f"ended with {refused.returncode}, expected 65")
proposals = re.findall(r"^    (--.*?)(?: \(on \d+ ranks\))?(?: \(without (.*)\))?: ", refused.stderr, re.MULTILINE)
if not proposals:
    sys.exit("proposed nothing")
for number, (proposal, withdrawn) in enumerate(proposals):
    words, changed = [], proposal.split()
    replaced = dict(zip(changed[::2], changed[1::2]))
    rest = iter(command)
    for word in rest:
        if word in replaced or (word in withdrawn.split(", ") and word != "--partition-activations"):
            next(rest)
        elif word in withdrawn.split(", "):
            continue
        else:
            words.append(word)
    fits = subprocess.run(words + changed + ["-o", f"{folder}/fits{number}"], capture_output=True, text=True)
    print(f"applied {proposal}: status {fits.returncode}")
    if fits.returncode != 0:
        sys.exit(fits.stderr)
