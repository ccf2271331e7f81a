# build.sh - where things are built, and building them; sourced by the scripts beside this folder.
#
# Sets top (the checkout), source (its name for configure), build and install. A name with a space in it
# cannot be used: configure refuses it and LD_PRELOAD is split at spaces. Then source is a symbolic link
# to the checkout in a temporary folder, which holds build and install as well and goes at exit.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
source=$top
temporary=

set_folders()
{
    case $top in
        *[!A-Za-z0-9/._+@=,:~-]* | *:*)
            temporary=$(mktemp -d "${TMPDIR:-/tmp}/belay-build.XXXXXX")
            ln -s "$top" "$temporary/source"
            source=$temporary/source
            build=$temporary/build
            install=$temporary/install
            ;;
        *)
            build=$top/_build
            install=$top/_install
            ;;
    esac
    logs=$top/_build/check-logs
    mkdir -p "$build" "$logs"
}

remove_temporary()
{
    [ -z "$temporary" ] || rm -rf "$temporary"
}

# step NAME COMMAND...: run it with its output in a log; one line for the reader, and the log's end if it
# failed. Returns the command's status, and leaves it in a file beside the log.
step()
{
    local name=$1 log=$logs/$1.log began=$SECONDS status=0
    shift
    printf '  %-14s ' "$name"
    "$@" >"$log" 2>&1 || status=$?
    echo $status >"$logs/$name.status"
    if [ $status = 0 ]; then
        printf 'ok      %4d s\n' $((SECONDS - began))
    else
        printf 'FAILED  %4d s   (%s)\n' $((SECONDS - began)) "$log"
        tail -n 30 "$log" | sed 's/^/    | /'
    fi
    return $status
}

run_autogen()
{
    cd "$source" && ./autogen.sh
}

run_configure()
{
    cd "$build" && "$source/configure" --prefix="$install" --libdir="$install/lib"
}

run_make()
{
    make -C "$build" -j"$(nproc)" "$@"
}

# Needed packages, configure, build, install: everything up to a belay that can be run. Arguments are those of
# install-deps.
build_all()
{
    step install-deps "$top/scripts/install-deps" "$@" &&
        step autogen run_autogen &&
        step configure run_configure &&
        step build run_make all &&
        step install run_make install
}
