/* Measures the cost of the device for a program that uses only open, ioctl, mmap and poll.
 *   netmap DEVICE sync SECONDS           syncs an idle ring; prints "count wall_ns cpu_ns"
 *   netmap DEVICE tx|rx NAME SECONDS LEN moves frames of a pipe, polling as pkt-gen does; prints the same
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct slot {
    uint32_t buf_idx;
    uint16_t len, flags;
    uint64_t ptr;
};
struct ring {
    int64_t buf_ofs;
    uint32_t num_slots, nr_buf_size;
    uint16_t ringid, dir;
    volatile uint32_t head, cur, tail;
    uint8_t other[224 - 4];
    struct slot slot[];
};
struct nif {
    char name[16];
    uint32_t version, flags, tx_rings, rx_rings, bufs_head, host_tx, host_rx, spare[3];
    int64_t ring_ofs[];
};
struct header {
    uint16_t version, type;
    uint32_t reserved;
    char name[64];
    uint64_t options, body;
};
struct reg {
    uint64_t offset, memsize;
    uint32_t tx_slots, rx_slots;
    uint16_t tx_rings, rx_rings, host_tx, host_rx, mem_id, ringid;
    uint32_t mode, extra, pad;
    uint64_t flags;
};
_Static_assert(sizeof(struct ring) == 256, "netmap's ring");

#define NIOCCTRL 0xc0586997u
#define NIOCTXSYNC 0x6994u

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint32_t next(struct ring *r, uint32_t i) { return i + 1 == r->num_slots ? 0 : i + 1; }

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    int sync = !strcmp(argv[2], "sync"), tx = !strcmp(argv[2], "tx");
    double seconds = atof(argv[sync ? 3 : 4]);
    int len = argc > 5 ? atoi(argv[5]) : 64;
    struct reg reg = {.mode = 1, .tx_slots = 1024, .rx_slots = 1024};
    struct header h = {.version = 14, .type = 1, .body = (uint64_t)&reg};
    strncpy(h.name, sync ? "idle{1" : argv[3], 63);
    int fd = open(argv[1], O_RDWR);
    if (fd < 0 || ioctl(fd, NIOCCTRL, &h) < 0)
        die("bind");
    char *mem = mmap(0, reg.memsize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mem == MAP_FAILED)
        die("mmap");
    struct nif *nif = (struct nif *)(mem + reg.offset);
    struct ring *r = (struct ring *)((char *)nif + nif->ring_ofs[tx || sync ? 0 : nif->tx_rings + nif->host_tx]);
    char *bufs = (char *)r + r->buf_ofs;
    puts("ready");
    fflush(stdout);
    uint64_t count = 0, bytes = 0, start = ns(CLOCK_MONOTONIC), end = start + seconds * 1e9, t = start;
    struct pollfd p = {.fd = fd, .events = tx ? POLLOUT : POLLIN};
    if (!sync && !tx) {
        /* The time starts with the first frame. */
        if (poll(&p, 1, 20000) != 1)
            die("no frame");
        start = ns(CLOCK_MONOTONIC), end = start + seconds * 1e9;
    }
    uint64_t cpu = ns(CLOCK_PROCESS_CPUTIME_ID);
    while (t < end) {
        if (sync) {
            for (int i = 0; i < 64; i++)
                if (ioctl(fd, NIOCTXSYNC, 0) < 0)
                    die("sync");
            count += 64;
        } else {
            int got = poll(&p, 1, 1000);
            if (got < 0 || (p.revents & POLLERR))
                die("poll");
            if (got == 0)
                break;
            uint32_t i = r->head, most = 512;
            for (; i != r->tail && most; i = next(r, i), most--, count++) {
                struct slot *s = &r->slot[i];
                char *frame = bufs + (uint64_t)s->buf_idx * r->nr_buf_size;
                if (tx) {
                    memcpy(frame, &count, sizeof count);
                    s->len = len;
                } else
                    bytes += *(volatile char *)frame + s->len;
            }
            r->head = r->cur = i;
        }
        t = ns(CLOCK_MONOTONIC);
    }
    printf("%lu %lu %lu\n", count, t - start, ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    return bytes == 1;
}
