/* A program written for netmap: port DEVICE VERB NAME [NUMBER [NUMBER]], or port DEVICE shuttle NAME NAME
 * MILLISECONDS, or port DEVICE echo NAME TX RX, with numbers of host rings. It uses only open, ioctl, mmap and poll. */
#define _GNU_SOURCE
#include "../../fuse/tests/c/netmap.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #what, strerror(errno));       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A broadcast frame with an EtherType for experiments, and a number. */
static const uint8_t HEAD[14] = {255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};
#define LEN 60

static int fd;
static struct ring *tx, *rx;
static struct nif *nif;
static uint16_t host_rings[2];

static void say(const char *what) {
    puts(what);
    fflush(stdout);
}

/* Returns false if the bind is refused. */
static int bind_port(const char *device, const char *name, uint32_t mode, uint64_t flags) {
    struct header h = {.version = 14, .reqtype = 1};
    struct reg reg = {.mode = mode, .flags = flags};
    reg.host_tx_rings = host_rings[0];
    reg.host_rx_rings = host_rings[1];
    h.body = (uint64_t)&reg;
    strncpy(h.name, name, sizeof h.name - 1);
    fd = open(device, O_RDWR);
    if (fd < 0 || ioctl(fd, NIOCCTRL, &h) < 0)
        return 0;
    char *mem = mmap(0, reg.memsize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mem != MAP_FAILED);
    nif = (struct nif *)(mem + reg.offset);
    tx = (struct ring *)((char *)nif + nif->ring_ofs[0]);
    rx = (struct ring *)((char *)nif + nif->ring_ofs[nif->tx_rings + nif->host_tx_rings]);
    return 1;
}

static uint32_t next(struct ring *r, uint32_t i) { return i + 1 == r->num_slots ? 0 : i + 1; }

static uint8_t *buf(struct ring *r, uint32_t i) {
    return (uint8_t *)r + r->buf_ofs + (uint64_t)r->slot[i].buf_idx * r->nr_buf_size;
}

static int wait_for(int events) {
    struct pollfd p = {.fd = fd, .events = events};
    CHECK(poll(&p, 1, 120000) == 1);
    return p.revents;
}

static void send_frames(uint64_t count) {
    for (uint64_t sent = 0; sent < count;) {
        CHECK(wait_for(POLLOUT) & POLLOUT);
        for (; sent < count && tx->head != tx->tail; sent++) {
            uint8_t *frame = buf(tx, tx->head);
            memset(frame, 0, LEN);
            memcpy(frame, HEAD, sizeof HEAD);
            memcpy(frame + sizeof HEAD, &sent, sizeof sent);
            tx->slot[tx->head].len = LEN;
            __atomic_thread_fence(__ATOMIC_RELEASE);
            tx->head = tx->cur = next(tx, tx->head);
        }
        CHECK(ioctl(fd, NIOCTXSYNC, 0) == 0);
    }
    /*
     * Waits until all frames have left the ring: an interface discards unsent frames when it is
     * closed.
     */
    for (int i = 0; next(tx, tx->tail) != tx->head; i++) {
        CHECK(i < 20000 && ioctl(fd, NIOCTXSYNC, 0) == 0);
        usleep(1000);
    }
    say("sent");
}

static void receive_frames(uint64_t count) {
    say("bound");
    for (uint64_t seen = 0; seen < count;) {
        CHECK(wait_for(POLLIN) & POLLIN);
        for (; rx->head != rx->tail; rx->head = rx->cur = next(rx, rx->head)) {
            uint8_t *frame = buf(rx, rx->head);
            uint64_t number;
            if (memcmp(frame, HEAD, sizeof HEAD) != 0)
                continue;
            memcpy(&number, frame + sizeof HEAD, sizeof number);
            CHECK(number == seen && rx->slot[rx->head].len == LEN);
            seen++;
        }
        /* This sync also returns the last slots. */
        CHECK(ioctl(fd, NIOCRXSYNC, 0) == 0);
    }
    say("received");
}

static volatile sig_atomic_t is_over, is_asked;

static void hear(int signal) { *(signal == SIGTERM ? &is_over : &is_asked) = 1; }

static void sync_ring(int port, unsigned long cmd) { CHECK(ioctl(port, cmd, 0) == 0 || errno == EINTR); }

/* Whether a frame has arrived, or arrives within `patience` milliseconds. */
static int is_coming(int patience) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    sync_ring(fd, NIOCRXSYNC);
    return rx->head != rx->tail || (patience > 0 && poll(&p, 1, patience) > 0);
}

/*
 * Passes frames from one port to another until it gets a signal. At most as many frames are in
 * flight as the other ring has slots. Frames that have not arrived in time after all were sent
 * count as lost; all others must arrive in order. On request, it reports when many bursts in a row
 * have arrived completely.
 */
static void shuttle(const char *device, const char *to, int patience) {
    enum { BURST = 200, MANY = 20 };
    struct ring *out = tx;
    int from = fd;
    CHECK(bind_port(device, to, 1, 0));
    signal(SIGTERM, hear);
    signal(SIGUSR1, hear);
    say("bound");
    uint64_t sent = 0, expected = 0, came = 0;
    int whole = 0;
    while (!is_over) {
        uint64_t before = came;
        for (int i = 0; i < BURST; i++, sent++) {
            uint8_t *frame = buf(out, out->head);
            memset(frame, 0, LEN);
            memcpy(frame, HEAD, sizeof HEAD);
            memcpy(frame + sizeof HEAD, &sent, sizeof sent);
            out->slot[out->head].len = LEN;
            __atomic_thread_fence(__ATOMIC_RELEASE);
            out->head = out->cur = next(out, out->head);
        }
        do
            sync_ring(from, NIOCTXSYNC);
        while (next(out, out->tail) != out->head);
        while (expected < sent && is_coming(patience))
            for (; rx->head != rx->tail; rx->head = rx->cur = next(rx, rx->head)) {
                uint8_t *frame = buf(rx, rx->head);
                uint64_t number;
                if (memcmp(frame, HEAD, sizeof HEAD) != 0)
                    continue;
                memcpy(&number, frame + sizeof HEAD, sizeof number);
                CHECK(number >= expected && number < sent && rx->slot[rx->head].len == LEN);
                expected = number + 1;
                came++;
            }
        whole = is_asked && came - before == BURST ? whole + 1 : 0;
        if (whole == MANY) {
            is_asked = whole = 0;
            say("through");
        }
    }
    printf("sent %llu missing %llu\n", (unsigned long long)sent, (unsigned long long)(sent - came));
}

static struct ring *ring_at(uint32_t i) { return (struct ring *)((char *)nif + nif->ring_ofs[i]); }

/* Returns frames from the host to the host, over all host rings in turn. */
static void echo(void) {
    uint32_t tx_rings = nif->tx_rings + nif->host_tx_rings, turn = 0;
    CHECK(nif->host_tx_rings == host_rings[0] && nif->host_rx_rings == host_rings[1]);
    say("bound");
    for (;;) {
        CHECK(wait_for(POLLIN) == POLLIN);
        for (uint32_t i = 0; i < nif->host_rx_rings; i++) {
            struct ring *in = ring_at(tx_rings + nif->rx_rings + i);
            for (; in->head != in->tail; in->head = in->cur = next(in, in->head)) {
                struct ring *out = ring_at(nif->tx_rings + turn++ % nif->host_tx_rings);
                CHECK(out->head != out->tail);
                out->slot[out->head].len = in->slot[in->head].len;
                memcpy(buf(out, out->head), buf(in, in->head), in->slot[in->head].len);
                __atomic_thread_fence(__ATOMIC_RELEASE);
                out->head = out->cur = next(out, out->head);
                say("echoed");
            }
        }
        sync_ring(fd, NIOCTXSYNC);
        sync_ring(fd, NIOCRXSYNC);
    }
}

/* After the interface has ended, all calls fail. */
static void outlive(void) {
    say("bound");
    while (!(wait_for(POLLIN) & POLLERR) || ioctl(fd, NIOCRXSYNC, 0) == 0)
        ;
    for (int i = 0; i < 100; i++) {
        CHECK(ioctl(fd, i % 2 ? NIOCTXSYNC : NIOCRXSYNC, 0) < 0 && errno == EIO);
        CHECK(wait_for(POLLIN) & POLLERR);
    }
    say("gone");
}

static void hold(void) {
    say("bound");
    CHECK(wait_for(POLLIN) & POLLERR);
    CHECK(ioctl(fd, NIOCRXSYNC, 0) < 0);
    /* The last two errors occur while the rings are being removed. */
    CHECK(errno == ENOTCONN || errno == EIO || errno == ECONNABORTED || errno == ECANCELED);
    CHECK(ioctl(fd, NIOCTXSYNC, 0) < 0 && (errno == ENOTCONN || errno == EIO));
    CHECK(wait_for(POLLOUT) & POLLERR);
    say("told");
}

/*
 * Writes to memory far beyond that of the port, with the device open or closed, and keeps running.
 */
static void touch(uint64_t mib, int closes) {
    volatile char *mem = mmap(0, mib << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mem != MAP_FAILED);
    if (closes)
        close(fd);
    for (uint64_t at = 0; at < mib << 20; at += 4096)
        mem[at] = mem[at];
    say("touched");
    for (;;)
        pause();
}

int main(int argc, char **argv) {
    CHECK(argc >= 4);
    const char *verb = argv[2];
    uint64_t first = argc > 4 ? strtoull(argv[4], 0, 0) : 1;
    uint64_t second = argc > 5 ? strtoull(argv[5], 0, 0) : 0;
    int only_bind = strcmp(verb, "bind") == 0;
    int echoes = strcmp(verb, "echo") == 0;
    uint64_t flags = strcmp(verb, "shuttle") == 0 || echoes ? 0 : second;
    if (echoes) {
        host_rings[0] = (uint16_t)first;
        host_rings[1] = (uint16_t)second;
    }
    /* NR_REG_SW: the host's rings. */
    if (!bind_port(argv[1], argv[3], only_bind ? first : echoes ? 2 : 1, flags))
        say(strerrorname_np(errno));
    else if (only_bind)
        say("bound");
    else if (strcmp(verb, "send") == 0)
        send_frames(first);
    else if (strcmp(verb, "receive") == 0)
        receive_frames(first);
    else if (strcmp(verb, "shuttle") == 0)
        shuttle(argv[1], argv[4], (int)second);
    else if (echoes)
        echo();
    else if (strncmp(verb, "touch", 5) == 0)
        touch(first, strcmp(verb, "touch-closed") == 0);
    else if (strcmp(verb, "outlive") == 0)
        outlive();
    else
        hold();
    return 0;
}
