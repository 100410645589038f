#!/usr/bin/env bash
# Takes away what install.sh has brought: the running daemon is drained first.
#
#   deploy/uninstall.sh [--purge]
#
# Configuration, credentials, state and modules in /opt/taskengine/jobs stay; with --purge configuration, credentials and
# state go as well. The database is never touched, and neither is the system user: files elsewhere may be its own.
# Exit status: 0 done; 2 a wrong argument; 4 not root, or installed as a package (apt-get remove taskengine).
set -euo pipefail
cd -P "$(dirname "$(readlink -f "$0")")/.."
source deploy/setup.sh

HOME_DIR=/opt/taskengine
purge=0

fail() { local status=$1; shift; echo "uninstall.sh: $*" >&2; exit "$status"; }

remove_files() {
  [[ -e $HOME_DIR/.files ]] || return 0
  xargs -r rm -f <"$HOME_DIR/.files"
  rm -f "$HOME_DIR/.files"
}

for argument in "$@"; do
  case $argument in
    --purge) purge=1 ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' deploy/uninstall.sh; exit 0 ;;
    *) fail 2 "unknown argument $argument (--purge)" ;;
  esac
done
((EUID == 0)) || fail 4 "must be run as root: sudo deploy/uninstall.sh"
if dpkg-query --show --showformat='${Status}' taskengine 2>/dev/null | grep -q ' installed$'; then
  fail 4 "installed as a package: apt-get remove taskengine"
fi
mapfile -t units < <(enabled_ones)
if ((${#units[@]})); then systemctl --quiet disable "${units[@]}" 2>/dev/null || true; fi
stop_all
remove_files
rm -rf "$HOME_DIR/.venv" "$HOME_DIR/.venv.new" "$HOME_DIR/.venv.old"
rmdir --ignore-fail-on-non-empty "$HOME_DIR/jobs" "$HOME_DIR" 2>/dev/null || true
if running_systemd; then systemctl daemon-reload; fi
if ((purge)); then rm -rf "$CONFIG" /var/lib/taskengine /var/cache/taskengine /var/log/taskengine; fi
