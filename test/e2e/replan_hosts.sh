#!/usr/bin/env bash
# A run on two hosts (network namespaces with an sshd each) whose first steps show its layout to be a bad one: the hosts'
# measurement is one file, a better layout is proposed, and the run goes on as it was.
#
# Usage: replan_hosts.sh BUILD_FOLDER MODELS_FOLDER SCRATCH_FOLDER
set -euo pipefail
[ -x /usr/sbin/sshd ] || { echo "skipped: there is no /usr/sbin/sshd"; exit 77; }
rooms=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
mkdir -p "$3"
bin=$(realpath "$1/bin") models=$(realpath "$2") folder=$(realpath "$3")
rm -rf "$folder" && mkdir -p "$folder"

. "$rooms/namespaces.sh"
make_hosts 2
serve_ssh "$folder"
printf '10.78.0.%d slots=1\n' 1 2 >"$folder/hosts"

out=$folder/out
"$bin/hyc-compile" "$rooms/small-gpt2.json" --entry train --pp 2 --micro-batch 4 -o "$out" >"$folder/compile" 2>&1 ||
  { cat "$folder/compile"; exit 1; }
run=("$bin/hyc-run" "$out" --data "$models/text.bin" --seed 1 --threads 1 --steps 12)
inside 0 "${run[@]}" --hostfile "$folder/hosts" --ssh-port 2222 --replan-after 5 --profile "$folder/profile.json" \
  --log-file "$folder/log" >"$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
grep -q 'by .*profile.json a step of this layout (--pp 2 --micro-batch 4) takes about' "$folder/said" || { cat "$folder/said"; exit 1; }
grep -q '^hyc-run: better by' "$folder/said" || { cat "$folder/said"; exit 1; }
grep -q '^hyc-run:   hyc-compile .*--ranks=2' "$folder/said" || { cat "$folder/said"; exit 1; }
"${run[@]}" --log-file "$folder/alone" >/dev/null 2>&1
losses() { sed -nE 's/.*"loss": ?([^,}]+).*/\1/p' "$1"; }
[ "$(losses "$folder/log" | wc -l)" = 12 ] || { echo "the run has not gone on"; exit 1; }
cmp <(losses "$folder/log") <(losses "$folder/alone") || { echo "the losses are not those without"; exit 1; }
echo "proposed, and gone on with: $(grep '^hyc-run: better' "$folder/said")"
