# Situations in which an error message advises a command. `sh walks.sh NAME` must run in network and
# mount namespaces of its own. advice.rs lists the commands that each function covers.
set -e
mount -t tmpfs none /mnt
mkdir /mnt/bin
install -m 755 "$BINARY" /mnt/bin/slipring
PATH=/mnt/bin:$PATH
SLIPRING_RUN=/mnt/run
export PATH SLIPRING_RUN
cd /mnt

sudo() { "$@"; }
quiet() { for one in default "$@"; do echo 1 > /proc/sys/net/ipv6/conf/$one/disable_ipv6; done; }
fail() { echo "walk: $*"; cat said 2> none || true; exit 90; }

# Creates two veth pairs: eth0 to peer0, eth1 to peer1.
cables() {
    quiet
    for at in 0 1; do
        ip link add eth$at type veth peer name peer$at
        ip link set eth$at up
        ip link set peer$at up
    done
}

# fails COMMAND...: checks that the command fails, and keeps its output in the file `said`.
fails() { if "$@" > said 2>&1 < /dev/null; then fail "did not fail: $*"; fi; }

# advised PREFIX: prints the command in `said` that begins with PREFIX.
advised() {
    grep -o -F -e "$1" said > none || fail "does not advise: $1"
    sed -n "s|^.*\($1.*\)$|\1|p" said | sed 's/; .*//; s/, or .*//; s/).*//' | head -1
}

# mended PREFIX COMMAND...: checks that COMMAND fails, and works after the advised command.
mended() {
    prefix=$1
    shift
    fails "$@"
    command=$(advised "$prefix")
    eval "${SUBSTITUTE:+$(echo "$command" | sed "$SUBSTITUTE") #} $command" || fail "cannot be carried out: $command"
    "$@" > said 2>&1 < /dev/null || fail "is not mended by: $command"
}

# begins COMMAND...: whether COMMAND prints a first line. Then stops COMMAND.
begins() {
    rm -f first
    mkfifo first
    "$@" > first 2> said < /dev/null &
    begun=$!
    line=
    read -r line < first || true
    kill $begun 2> none || true
    wait $begun || true
    [ -n "$line" ]
}

walk_down() {
    cables
    ip link set eth0 down
    mended "ip link set" slipring gen -i netmap:eth0 -f tx -n 1 --exit-on-link-down
}

walk_carrier() {
    # An interface that was up before counts as up for a moment longer, so a new interface is used.
    quiet
    ip link add eth0 type veth peer name peer0
    ip link set eth0 up
    SUBSTITUTE=s/PEER/peer0/
    mended "ip link set" slipring gen -i netmap:eth0 -f tx -n 1 -w 2
}

walk_mtu() {
    cables
    ip link set eth0 mtu 65000
    mended "ip link set" slipring gen -i xdp:eth0 -f tx -n 1
}

walk_interface() {
    cables
    fails slipring gen -i netmap:nosuch -f tx -n 1
    eval "$(advised 'slipring ports')" > listed
    grep -q eth0 listed || fail "does not list eth0"
    slipring gen -i netmap:eth0 -f tx -n 1
}

walk_address() {
    cables
    ip addr add 10.2.0.1/24 dev eth1
    mended "ip addr add" slipring emulate -r -i netmap:eth0 -i netmap:eth1 -D 1ms -t 100ms
}

walk_forwards() {
    cables
    ip addr add 10.1.0.1/24 dev eth0
    ip addr add 10.2.0.1/24 dev eth1
    echo 1 > /proc/sys/net/ipv4/ip_forward
    route() { slipring emulate -r -i packet:eth0 -i packet:eth1 -D 1ms -t 100ms > said 2>&1; }
    route
    eval "$(advised 'sysctl -w')"
    route
    if grep -q ip_forward said; then fail "still warns"; fi
}

walk_forwards_not() {
    echo 0 > /proc/sys/net/ipv4/ip_forward
    run() { slipring run --nat kernel --delay 1ms true > said 2>&1; }
    run
    eval "$(advised 'sysctl -w')"
    run
    if grep -q ip_forward said; then fail "still warns"; fi
}

walk_device() {
    fails slipring doctor kernel:x{1@/mnt/netmap
    command=$(advised "slipring daemon --link")
    mkfifo first
    $command > first 2> said &
    daemon=$!
    read -r line < first
    slipring doctor kernel:x{1@/mnt/netmap > doctor || { cat doctor; kill $daemon; exit 1; }
    kill $daemon
    wait $daemon || true
}

walk_run_dir() {
    mkdir run
    chmod 777 run
    mended "chmod go-w" slipring emulate --name lab -i null: -i null: -D 1ms -t 100ms
}

serve() { begins slipring serve --listen 127.0.0.1:0 --token-file token; }

# told PREFIX: checks that serve refuses the token, and works after the advised command.
told() {
    if serve; then fail "serves"; fi
    command=$(grep -o "$1" said | head -1)
    [ -n "$command" ] || fail "does not advise: $1"
    eval "$command"
    serve || fail "is not mended by: $command"
}

walk_token() {
    (umask 077; echo short > token)
    told '(umask [^)]*)'
}

walk_token_for_all() {
    echo 0123456789abcdef > token
    chmod 644 token
    told 'chmod [^;]*'
}

walk_token_of_another() {
    (umask 077; echo 0123456789abcdef > token)
    chown 12345 token
    told 'sudo chown .*'
}

walk_tun() {
    mknod -m 600 tun c 10 200
    mount --bind tun /dev/net/tun
    ip tuntap add dev own mode tap user 65534
    # The new sysfs shows the interfaces of this network namespace.
    mount -t sysfs none /sys
    mended "sudo chmod 0666" setpriv --reuid 65534 --regid 65534 --clear-groups \
        slipring doctor tap:own
}

walk_unreadable() {
    fails slipring gen -i pcap:/mnt/in.pcap -f rx
    # The advised command only shows the fault: there is no such file.
    if eval "$(advised 'ls -ld')" > seen 2>&1; then fail "it is there"; fi
    grep -q /mnt/in.pcap seen
    slipring gen -i pcap:/mnt/in.pcap -f tx -n 1
    slipring gen -i pcap:/mnt/in.pcap -f rx
}

walk_packed() {
    slipring gen -i pcap:trace.pcap -f tx -n 1
    gzip trace.pcap
    fails slipring gen -i pcap:trace.pcap.gz -f rx
    gunzip trace.pcap.gz
    slipring gen -i pcap:trace.pcap -f rx
}

walk_overwrite() {
    slipring gen -i pcap:out.pcap -f tx -n 1
    fails slipring gen -i pcap:out.pcap -f tx -n 10
    grep -q -e --overwrite said || fail "does not advise --overwrite"
    slipring gen -i pcap:out.pcap -f tx -n 10 --overwrite
}

# Runs each line of the file $1, which are commands that only show something or are examples.
# Creates the files and interfaces that they name. Prints all that fail.
runs() {
    lab=
    cables
    mkdir run
    slipring gen -i pcap:trace.pcap -f tx -n 3
    cp trace.pcap FILE
    gzip -k trace.pcap
    slipring gen -i null: -f tx -n 3 --print-config > gen.toml
    slipring emulate -D 20ms -i tap:a -i tap:b --print-config > link.toml
    echo "add 100 allow ip from any to any" > rules
    wrong=0
    while read -r line; do
        case $line in *" ctl "* | "slipring top"*) emulator ;; esac
        if ! (eval "$line") > said 2>&1 < /dev/null; then
            echo "--- $line"
            cat said
            wrong=1
        fi
        case $line in *" quit "*) wait "$lab" || true; lab= ;; esac
    done < "$1"
    [ -z "$lab" ] || kill "$lab" 2> none || true
    return $wrong
}

# Starts an emulator called lab.
emulator() {
    if [ -n "$lab" ] && kill -0 "$lab" 2> none; then return; fi
    rm -f first
    mkfifo first
    slipring emulate --name lab -i tap:la -i tap:lb -D 1ms > first 2> none &
    lab=$!
    exec 9< first
    read -r begun <&9
}

"$@"
