# Hosts as network namespaces of this machine, for scripts that source this: `make_hosts N` makes hosts 0 to N - 1, called
# host0 and so on with the addresses 10.78.0.1 and so on, all on one switch, which end with the script; `inside I COMMAND…`
# runs a command on one. They last for HYC_HOST_SECONDS, or an hour. A script that may not make them ends with 77, and says why.
# shellcheck shell=bash

holders=()
make_hosts() {
  local count=$1 i why names
  why=$(unshare --net --uts --mount true 2>&1) || { echo "skipped: cannot make namespaces: $why"; exit 77; }
  names=$(mktemp)
  echo "127.0.0.1 localhost" >"$names"
  for ((i = 0; i < count; i++)); do echo "10.78.0.$((i + 1)) host$i" >>"$names"; done
  trap 'kill "${holders[@]}" 2>/dev/null || true' EXIT
  # Holder I is host I; the last the switch between them.
  for ((i = 0; i <= count; i++)); do
    unshare --net --uts --mount /bin/sh -c "hostname host$i && mount --bind $names /etc/hosts && ip link set lo up && exec sleep ${HYC_HOST_SECONDS:-3600}" & holders+=($!)
  done
  for ((i = 0; i <= count; i++)); do
    until [ "$(readlink "/proc/${holders[i]}/exe")" = "$(readlink -f "$(command -v sleep)")" ]; do sleep 0.05; done
  done
  rm -f "$names"
  inside "$count" ip link add br0 type bridge
  inside "$count" ip link set br0 up
  for ((i = 0; i < count; i++)); do
    inside "$count" ip link add "cable$i" type veth peer name eth0 netns "${holders[i]}"
    inside "$count" ip link set "cable$i" master br0 up
    inside "$i" ip address add "10.78.0.$((i + 1))/24" dev eth0
    inside "$i" ip link set eth0 up
  done
}
inside() { local i=$1; shift; nsenter --target "${holders[i]}" --net --uts --mount -- "$@"; }
