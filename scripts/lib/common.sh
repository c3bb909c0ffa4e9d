# shellcheck shell=bash disable=SC2034
# Sourced by the other scripts: where files are, and how long steps are shown.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# What all clones share: compiled objects, guest images, csi-sanity.
export QUARRY_CACHE=${QUARRY_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/quarry}
# The output of each step, in each clone.
logs=$root/build/logs
mkdir -p "$QUARRY_CACHE" "$logs"

if [ -t 2 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' plain=$'\e[0m'
else
  bold='' dim='' red='' plain=''
fi

say() { printf '%s\n' "${bold}==>${plain} $*" >&2; }
die() {
  printf '%s\n' "${red}${0##*/}: $*${plain}" >&2
  exit 1
}

# skip REASON: ends a script whose work is not possible here. ctest shows the status as "Skipped". Where CI is set, nothing
# that belongs to the tests may be missing.
skip() {
  printf '%s\n' "${0##*/}: $*" >&2
  [ -z "${CI:-}" ] || exit 1
  exit 77
}

# step TITLE LOG COMMAND…: runs a command that may take minutes, with its output in a log below build/logs. A terminal
# shows the log's last line as it changes, other output shows it every half minute. A failure shows the log's end.
step() {
  local title=$1 log=$logs/$2 started=$SECONDS pid line status=0 shown=0
  shift 2
  say "$title"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  # shellcheck disable=SC2064  # the present pid is meant
  trap "kill $pid 2>/dev/null; exit 130" INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    line=$(tail -n 1 "$log" | tr -d '\r' | cut -c1-100)
    if [ -t 2 ]; then
      printf '\r\e[K%s' "$dim    $line$plain" >&2
    elif ((SECONDS - started >= shown + 30)); then
      shown=$((SECONDS - started))
      printf '    %3d s  %s\n' "$shown" "$line" >&2
    fi
  done
  wait "$pid" || status=$?
  trap - INT TERM
  [ -t 2 ] && printf '\r\e[K' >&2
  if ((status != 0)); then
    tail -n 60 "$log" >&2
    die "$title: failed with status $status; the whole log is $log"
  fi
  if ((SECONDS - started >= 2)); then
    printf '%s\n' "${dim}    done in $((SECONDS - started)) s${plain}" >&2
  fi
}
