# Hosts as network namespaces of this machine, for scripts that source this: `make_hosts N` makes hosts 0 to N - 1, called
# host0 and so on with the addresses 10.78.0.1 and so on, all on one switch, which end with the script; `inside I COMMAND…`
# runs a command on one; `serve_ssh FOLDER` lets each into all others by ssh. They last for HYC_HOST_SECONDS, or an hour. A script that may not make them ends with 77, and says why.
# shellcheck shell=bash

holders=() holders_ssh=()
make_hosts() {
  local count=$1 i why names
  why=$(unshare --net --uts --mount true 2>&1) || { echo "skipped: cannot make namespaces: $why"; exit 77; }
  names=$(mktemp)
  echo "127.0.0.1 localhost" >"$names"
  for ((i = 0; i < count; i++)); do echo "10.78.0.$((i + 1)) host$i" >>"$names"; done
  trap 'kill "${holders_ssh[@]}" "${holders[@]}" 2>/dev/null || true' EXIT
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
# Each host gets an sshd of its own, whose keys are in FOLDER/ssh; 1: there is no sshd here.
serve_ssh() {
  local keys=$1/ssh i tries
  [ -x /usr/sbin/sshd ] || return 1
  mkdir -p "$keys"
  for i in host user; do [ -f "$keys/$i" ] || ssh-keygen -q -t ed25519 -N '' -f "$keys/$i"; done
  printf '%s\n' "Port 2222" "HostKey $keys/host" "AuthorizedKeysFile $keys/user.pub" "StrictModes no" "UsePAM no" "PidFile none" \
    "PermitRootLogin yes" >"$keys/sshd_config"
  printf '%s\n' "Host *" "  IdentityFile $keys/user" "  StrictHostKeyChecking no" "  UserKnownHostsFile /dev/null" "  LogLevel ERROR" \
    >"$keys/ssh_config"
  for ((i = 0; i + 1 < ${#holders[@]}; i++)); do
    # In the holder's own mounts, so that they end with it.
    inside "$i" sh -c "mount -t tmpfs none /run && mkdir /run/sshd && mount --bind $keys/ssh_config /etc/ssh/ssh_config"
    nsenter --target "${holders[i]}" --net --uts --mount -- /usr/sbin/sshd -D -e -f "$keys/sshd_config" 2>"$keys/host$i.said" & holders_ssh+=($!)
    for ((tries = 0; tries < 200; tries++)); do
      inside "$i" bash -c "exec 3<>/dev/tcp/10.78.0.$((i + 1))/2222" 2>/dev/null && break
      sleep 0.05
    done
    [ "$tries" -lt 200 ] || { echo "sshd does not listen:"; cat "$keys/host$i.said"; exit 1; }
  done
}
