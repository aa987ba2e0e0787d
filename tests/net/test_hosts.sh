#!/usr/bin/env bash
# Runs ranks under $MPI on several hosts, which are network namespaces with one link each to a switch;
# no ssh.  The weights have the bits of one process.  If a link is cut or a rank is killed or stopped,
# the other ranks name the lost ones, and all processes end.
set -euo pipefail
here=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=tests/net/ranks.sh
. "$here/ranks.sh"

# -- hosts -----------------------------------------------------------------------------------------

hosts=(a b c)
net="w$$" # device names have at most 15 letters
remove_hosts() {
    local host
    for host in "${hosts[@]}" switch; do
        ip netns del "$net$host" 2>/dev/null || true # removes its devices as well
    done
}
cannot() {
    echo "skipped: this system does not allow the test to create $*"
    exit 77
}
address() { echo "10.99.0.$1"; }

# add_host NAME ADDRESS
add_host() {
    local ns=$net$1
    ip netns add "$ns" && ip link add "$ns" netns "$ns" type veth peer name "$ns" netns "${net}switch" &&
        ip -n "${net}switch" link set "$ns" master bridge up &&
        ip -n "$ns" link set "$ns" name v0 &&
        ip -n "$ns" addr add "$2/24" dev v0 && ip -n "$ns" link set v0 up &&
        ip -n "$ns" link set lo up || return 1
    # The daemons of MPI notice a cut only when TCP does: here after seconds instead of 15 minutes.
    # The ranks, which are tested here, do not rely on it.
    ip netns exec "$ns" sh -c 'echo 2 >/proc/sys/net/ipv4/tcp_retries2' || return 1
}

make_hosts() {
    local i
    command -v ip >/dev/null || cannot 'network namespaces: the command ip is missing'
    ip netns add "${net}switch" 2>/dev/null || cannot 'network namespaces'
    ip -n "${net}switch" link add bridge type bridge 2>/dev/null || cannot 'a bridge'
    ip -n "${net}switch" link set bridge up
    for i in "${!hosts[@]}"; do
        add_host "${hosts[i]}" "$(address $((i + 1)))" 2>"$folder/err" ||
            cannot "hosts: $(head -n 1 "$folder/err")"
    done
    ip netns exec "${net}a" unshare --uts true 2>/dev/null || cannot 'host names'
}

cut_link() { ip -n "${net}switch" link set "$net$1" down; }
is_up() { ip -n "$net$1" -br link show dev v0 | grep -q ' UP '; }
mend_link() {
    ip -n "${net}switch" link set "$net$1" up
    await "$patience" is_up "$1" || fail "the link of $1 does not come up again"
    local host
    for host in "${hosts[@]}"; do # their neighbour tables have no entry for $1
        ip -n "$net$host" neigh flush all
    done
}

# -- MPI over them ---------------------------------------------------------------------------------

# Writes two scripts: "on HOST COMMAND" runs a command in the namespace of a host, under its name.
write_agent() {
    cat >"$folder/on" <<AGENT
#!/bin/sh
exec ip netns exec "$net\$1" unshare --uts sh -c 'hostname "\$0"; exec sh -c "\$1"' "\$1" "\$2"
AGENT
    # "agent" has the arguments of ssh: options, an address, the words of a command.
    cat >"$folder/agent" <<AGENT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
case \$1 in
$(address 1)) host=a ;;
$(address 2)) host=b ;;
$(address 3)) host=c ;;
*) exit 1 ;;
esac
shift
exec "$folder/on" \$host "\$*"
AGENT
    chmod +x "$folder/on" "$folder/agent"
}

# These hosts share memory, unlike real ones: only TCP is allowed.
if [ "$MPI" = openmpi ]; then
    run+=(--mca plm_rsh_agent "$folder/agent" --mca btl 'tcp,self'
        --mca btl_tcp_if_include "$(address 0)/24" --mca oob_tcp_if_include "$(address 0)/24"
        --mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1
        --mca oob_tcp_keepalive_probes 3)
else
    run+=(-launcher ssh -launcher-exec "$folder/agent" -iface v0)
    export UCX_TLS=tcp,self
fi

# The launcher runs on the first host.
launch() { exec "$folder/on" a "exec $(printf '%q ' "${run[@]}" "$@")"; }

# in_turn N, in_blocks N: arguments that place ranks on the first N hosts.
host_list() {
    local i list=
    for ((i = 1; i <= $1; i++)); do list+=,$(address "$i")$2; done
    echo "${list#,}"
}
in_turn() {
    if [ "$MPI" = openmpi ]; then
        echo "--map-by node --host $(host_list "$1" :2)"
    else
        echo "-hosts $(host_list "$1" :1)"
    fi
}
in_blocks() {
    if [ "$MPI" = openmpi ]; then
        echo "--host $(host_list "$1" :2)"
    else
        echo "-hosts $(host_list "$1" :2)"
    fi
}

make_hosts
write_agent

# -- the same bits ---------------------------------------------------------------------------------

want=$(reference)
# same_bits N WHERE ARGUMENT...
same_bits() {
    local n=$1 where=$2
    shift 2
    case_name="bits, $n ranks, $*"
    rm -rf "$folder/run"
    # shellcheck disable=SC2086 # words
    run_all $where -n "$n" "${train[@]}" --train.timeout=60 --train.steps=8 \
        "--log.dir=$folder/run" "$@"
    [ $code -eq 0 ] || fail "exit code $code"
    [ "$(hash_of "$folder/run")" = "$want" ] || fail 'the weights differ from those of one process'
    nothing_left || fail "processes are still running: $(all_left)"
}
same_bits 4 "$(in_blocks 2)" --parallel.pp=2 --parallel.dp=2
same_bits 4 "$(in_turn 3)" --parallel.pp=2 --parallel.dp=2 --parallel.schedule=zb-h1

# -- faults ----------------------------------------------------------------------------------------

times=
# fault WHAT N RANK_OR_HOST LOST WHERE ARGUMENT...: LOST is a pattern of the lost ranks, as in 2|3.
fault() {
    local what=$1 n=$2 whom=$3 lost=$4 where=$5
    shift 5
    # shellcheck disable=SC2086 # words
    start "$what $whom, $n ranks, $*" "$n" $where -- "$@"
    case $what in
    cut) cut_link "$whom" ;;
    *) kill -"$what" "$(pid_of "$whom")" ;;
    esac
    finish_ranks
    # The launcher of MPICH may wait for its daemon beyond the cut long after all ranks have ended.
    [ "$what $MPI" != 'cut mpich' ] || mend_link "$whom"
    finish_launcher
    [ "$what $MPI" != 'cut openmpi' ] || mend_link "$whom"
    [ $code -ne 0 ] || fail 'the launcher exits with 0'
    [ "$what" != STOP ] || is_code 6 || fail "exit code $code"
    show_records >"$folder/records"
    check_reports "$what" "$lost" "$n" "$whom"
    times+=" $what $took ms,"
}

# Checks the messages and the flight records of all ranks.
check_reports() {
    local what=$1 lost=$2 n=$3 whom=$4
    if [ "$what" = KILL ]; then # the launcher ended the others first
        grep -q "^rank $whom of $n: running, step" "$folder/records" ||
            fail "rank $whom was killed, but its record does not show that it ran"
        # MPICH ends all ranks within 0.1 s, which cannot be ordered across hosts.
        [ "$MPI" = mpich ] || reports_lost "$whom" ||
            fail "rank $whom was killed, but weft inspect does not report it"
        return
    fi
    if [ "$what" = STOP ]; then
        blames "$folder/err" "$lost" || fail "the reports do not name rank $lost alone"
        return
    fi
    crosses "$folder/err" "$lost" || fail 'no rank is named, or one on the same side of the cut'
    crosses "$folder/records" "$lost" || fail 'a record names a rank on the same side of the cut'
    # The ranks on both sides of the cut end.
    [ "$(grep -cE ": failed, .*($silent|$broken)" "$folder/records")" -eq "$n" ] ||
        fail "not all $n ranks have recorded why they ended"
}

# Ranks 0 and 1 are on host a, 2 and 3 on b; or each of three hosts has one rank.
fault cut 4 b '2|3' "$(in_blocks 2)" --parallel.pp=2 --parallel.dp=2
fault KILL 3 0 0 "$(in_turn 3)" --parallel.pp=3
fault STOP 4 2 2 "$(in_blocks 2)" --parallel.pp=2 --parallel.dp=2
if [ -n "${WEFT_TEST_DEEP-}" ]; then
    fault cut 3 c 2 "$(in_turn 3)" --parallel.pp=3 --parallel.schedule=zb-h1
    fault KILL 4 3 3 "$(in_blocks 2)" --parallel.pp=2 --parallel.dp=2
    fault STOP 3 1 1 "$(in_turn 3)" --parallel.pp=3
fi
check_shm

echo "$MPI: the bits of one process on 2 and 3 hosts; all ranks ended after:${times%,} (time-out $timeout s)"
