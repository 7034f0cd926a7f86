#!/bin/bash
# life.sh FIRST.deb SECOND.deb WORK: installs, starts, upgrades and removes the package, on a copy of this system that is
# seen by this script alone. It runs in mount and process namespaces of its own.
set -euo pipefail
first=$1 second=$2 work=$3
mount -t tmpfs none "$work"
mkdir "$work"/{up,tmp,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/up,workdir=$work/tmp" "$work/root"
for dir in dev sys; do mount --rbind "/$dir" "$work/root/$dir"; done
mount -t proc proc "$work/root/proc"
mount -t tmpfs none "$work/root/run"
mount -t tmpfs none "$work/root/tmp"
rm -rf "$work/root/var/lib/cantina" "$work/root/etc/cantina"
cp "$first" "$work/root/tmp/first.deb"
cp "$second" "$work/root/tmp/second.deb"
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
inside() { chroot "$work/root" "$@"; }
same() { [ "$2" = "$3" ] || { echo "$1: $2, want $3" >&2; exit 1; }; }

# start UNIT runs the command of a unit as its user, until it listens.
start() {
  local unit=$work/root/usr/lib/systemd/system/$1.service ARGS= line user
  . "$work/root/etc/default/$1"
  line=$(sed -n 's/^ExecStart=//p' "$unit")
  user=$(sed -n 's/^User=//p' "$unit")
  for dir in $(sed -n 's/^StateDirectory=//p' "$unit"); do inside install -d -m 0700 -o "${user:-root}" -g "${user:-root}" "/var/lib/$dir"; done
  for dir in $(sed -n 's/^RuntimeDirectory=//p' "$unit"); do inside install -d -m 0755 -o "${user:-root}" -g "${user:-root}" "/run/$dir"; done
  rm -f "$work/$1.ready" && mkfifo "$work/$1.ready"
  chroot "$work/root" setpriv ${user:+--reuid=$user --regid=$user --init-groups} sh -c "umask 077; exec ${line//'$ARGS'/$ARGS} --ready-fd 3" \
    3>"$work/$1.ready" >"$work/$1.log" 2>&1 &
  pid=$!
  read -r line <"$work/$1.ready" || { cat "$work/$1.log" >&2; exit 1; }
}

inside dpkg -i /tmp/first.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; exit 1; }
same "user" "$(inside id -un cantina)" cantina
same "mode of /etc/cantina/token" "$(inside stat -c '%a %U' /etc/cantina/token)" "600 cantina"
same "version" "$(inside cantina version --client -q)" first
inside test -s /usr/share/man/man1/cantina-server.1.gz
inside bash -c 'source /usr/share/bash-completion/completions/cantina'
inside systemd-analyze verify --man=no cantina-server.service cantina-cell.service

echo 'ARGS="--new-cluster"' >"$work/root/etc/default/cantina-server"
start cantina-server && server=$pid
start cantina-cell && cell=$pid
inside cantina run --name one -- sh -c 'echo done' | grep -x done >/dev/null
cat >"$work/root/tmp/kept.yaml" <<'END'
tasks:
  kept: {command: [sh, -c, "echo up; exec sleep 1000"], on_cell_restart: keep}
END
inside cantina apply /tmp/kept.yaml --yes >/dev/null
grep -m1 up >/dev/null < <(inside cantina logs -f task/kept)
token=$(inside cat /etc/cantina/token)
kept=$(inside pgrep -f '^sleep 1000$')

# The upgrade changes the files; the processes go on until they are restarted.
inside dpkg -i /tmp/second.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; exit 1; }
same "version" "$(inside cantina version --client -q)" second
same "changed configuration" "$(inside cat /etc/default/cantina-server)" 'ARGS="--new-cluster"'
same "token" "$(inside cat /etc/cantina/token)" "$token"
inside cantina task ls -o name | grep kept >/dev/null
kill "$server" && wait "$server" || true
start cantina-server && server=$pid
kill "$cell" && wait "$cell" || true
start cantina-cell && cell=$pid
same "process of kept work" "$(inside pgrep -f '^sleep 1000$')" "$kept"
inside cantina stop task/kept >/dev/null
inside cantina wait task/kept --client-exit-code --timeout 60s >/dev/null || [ $? = 1 ]
kill "$cell" && wait "$cell" || true
kill "$server" && wait "$server" || true

inside dpkg -r cantina >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; exit 1; }
inside test ! -e /usr/bin/cantina -a ! -e /usr/lib/systemd/system/cantina-cell.service
inside test -e /etc/default/cantina-server -a -e /etc/cantina/token -a -d /var/lib/cantina/server
inside dpkg -P cantina >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; exit 1; }
grep -q "data in /var/lib/cantina is kept" "$work/dpkg.log"
inside test ! -e /etc/default/cantina-server -a ! -e /etc/cantina -a -d /var/lib/cantina/server
echo "package is good"
