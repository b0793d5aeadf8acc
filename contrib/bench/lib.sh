# Shared by the executables of this folder, which `kickcache bench --target NAME=cmd:...` runs with `up`, `path`,
# `restart` or `down`. DRY_RUN=1 prints the commands that change something, and does not run them.
# shellcheck shell=sh

die() {
    echo "$0: $*" >&2
    exit 1
}

# `up` records the things that it made here, so that `down` removes only these.
# shellcheck disable=SC2034
state=${KICKCACHE_BENCH_DIR:-/tmp}
[ -d "$state" ] || die "KICKCACHE_BENCH_DIR=$state is no directory"

# Runs a command, or prints it.
run() {
    if [ "${DRY_RUN:-0}" = 1 ]; then
        echo "+ $*" >&2
    else
        "$@"
    fi
}

# need VARIABLE WHAT: the variable names a block device that exists.
need_device() {
    eval "value=\${$1:-}"
    [ -n "$value" ] || die "set $1 to the $2, a block device"
    [ "${DRY_RUN:-0}" = 1 ] || [ -b "$value" ] || die "$1=$value is no block device"
}

# A device with data is refused, unless the bench has --destroy-data.
check_blank() {
    [ "${DRY_RUN:-0}" = 1 ] && return
    [ "${KICKCACHE_BENCH_DESTROY:-0}" = 1 ] && return
    # The remains of an earlier round of the bench are no data.
    grep -qxF "$1" "$state/ours" 2>/dev/null && return
    found=$(wipefs --noheadings --output TYPE "$1") || die "$1 cannot be read"
    [ -z "$found" ] || die "$1 holds $found; give --destroy-data to lose it"
    # Its first MiB, and 64 KiB at the end and at 63 places between.
    cmp -s -n 1048576 "$1" /dev/zero || die "$1 is not blank; give --destroy-data to lose what it holds"
    last=$(($(device_bytes "$1") - 65536))
    for part in $(seq 1 64); do
        cmp -s -n 65536 -i "$((last / 64 * part)):0" "$1" /dev/zero ||
            die "$1 is not blank; give --destroy-data to lose what it holds"
    done
    echo "$1" >> "$state/ours"
}

# device_bytes DEVICE: how large it is.
device_bytes() {
    [ "${DRY_RUN:-0}" = 1 ] || blockdev --getsize64 "$1"
}

usage() {
    echo "usage: $0 up | path | restart | down | cache-size" >&2
    exit 64
}
