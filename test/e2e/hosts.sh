#!/usr/bin/env bash
# GPT-2 on eight ranks of one host, of two and of four: the losses of 20 steps are the same text, in data parallelism, under
# ZeRO 3 and in tp 2 × pp 2 × dp 2. Hosts are network namespaces; hyc-run reaches them by ssh, and beside that ranks get their place
# by variables, as under a launcher that hyc does not know.
#
# Usage: hosts.sh BUILD_DIR MODELS_DIR FOLDER
set -euo pipefail
bin=$1/bin models=$2 folder=$3
rm -rf "$folder" && mkdir -p "$folder"
. "$(dirname "${BASH_SOURCE[0]}")/namespaces.sh"
make_hosts 4
(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$folder/token")

losses() { sed -nE 's/.*"loss": ?([^,}]+).*/\1/p' "$1"; }
ssh=yes; serve_ssh "$folder" || { ssh=; echo "skipped: hyc-run by ssh, since there is no /usr/sbin/sshd"; }
run=(--data "$models/text.bin" --steps 20 --seed 1 --threads 1)
status=0
# hold NAME HOSTS HOW: the losses of one host and of several.
hold() {
  [ "$(losses "$folder/$1.$2" | wc -l)" = 20 ] || { echo "$1: steps are missing on $2 hosts, $3"; status=1; }
  diff <(losses "$folder/$1.1") <(losses "$folder/$1.$2") >/dev/null ||
    { echo "$1: the losses on $2 hosts differ from those on one, $3"; status=1; }
}
compare() {
  local name=$1 out=$folder/$1; shift
  "$bin/hyc-compile" "$models/gpt2-tiny.onnx" --loss cross_entropy --logits logits --labels labels --optimizer adamw \
    --lr 1e-3 "$@" -o "$out" >"$folder/$name.compile" 2>&1 || { cat "$folder/$name.compile"; exit 1; }
  "$bin/hyc-run" "$out" "${run[@]}" --log-file "$folder/$name.1" >/dev/null
  mapfile -t programs < <(python3 -c 'import json, sys
for rank in json.load(open(sys.argv[1]))["ranks"]: print(rank["program"])' "$out/manifest.json")
  local hosts rank pids
  for hosts in 2 4; do
    pids=()
    for rank in 0 1 2 3 4 5 6 7; do
      RANK=$rank WORLD_SIZE=8 LOCAL_RANK=$((rank % (8 / hosts))) LOCAL_WORLD_SIZE=$((8 / hosts)) MASTER_ADDR=10.78.0.1 \
        MASTER_PORT=4610 HYC_TOKEN_FILE=$folder/token OMP_WAIT_POLICY=passive inside $((rank / (8 / hosts))) \
        "$out/${programs[rank]}" --out "$out" "${run[@]}" --log-file "$folder/$name.$hosts" >/dev/null & pids+=($!)
    done
    for rank in 0 1 2 3 4 5 6 7; do wait "${pids[rank]}" || { echo "$name: rank $rank failed"; status=1; }; done
    hold "$name" "$hosts" "by variables"
    [ -n "$ssh" ] || continue
    for ((rank = 1; rank <= hosts; rank++)); do echo "10.78.0.$rank slots=$((8 / hosts))"; done >"$folder/hostfile"
    rm -f "$folder/$name.$hosts"
    OMP_WAIT_POLICY=passive inside 0 "$bin/hyc-run" "$out" --hostfile "$folder/hostfile" --ssh-port 2222 "${run[@]}" \
      --log-file "$folder/$name.$hosts" >"$folder/$name.said" 2>&1 || { echo "$name: hyc-run failed:"; tail "$folder/$name.said"; status=1; }
    hold "$name" "$hosts" "under hyc-run with ssh"
  done
  echo "$name: $(losses "$folder/$name.1" | tail -1) after 20 steps, on one, two and four hosts, by variables${ssh:+ and under hyc-run with ssh}"
}
compare dp --dp 8 --micro-batch 1 --grad-accum 2
compare zero3 --dp 8 --zero 3 --stage3-param-persistence-threshold 1000 --micro-batch 1 --grad-accum 2
compare tp2pp2dp2 --tp 2 --pp 2 --dp 2 --micro-batch 2 --grad-accum 4
exit $status
