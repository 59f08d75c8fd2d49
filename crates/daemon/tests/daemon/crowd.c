/* Large numbers of programs: well-behaved, killed, hostile. crowd DEVICE VERB [NUMBER..] */
#define _GNU_SOURCE
#include "../../../fuse/tests/c/netmap.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #what, strerror(errno));       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *device;

struct port {
    int fd;
    struct reg reg;
    char *mem;
    struct nif *nif;
    struct ring *tx, *rx;
};

static uint64_t seed = 1;

static uint64_t any(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static uint64_t below(uint64_t limit) { return any() % limit; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int control(int fd, const char *name, int type, void *body) {
    struct header h = {.version = 14, .reqtype = type, .body = (uint64_t)body};
    strncpy(h.name, name, 63);
    return ioctl(fd, NIOCCTRL, &h);
}

static int try_port(struct port *p, const char *name, struct reg reg) {
    p->fd = open(device, O_RDWR | O_CLOEXEC);
    p->reg = reg;
    if (p->fd < 0)
        return 0;
    if (control(p->fd, name, 1, &p->reg) < 0) {
        close(p->fd);
        return 0;
    }
    p->mem = mmap(0, p->reg.memsize, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    CHECK(p->mem != MAP_FAILED);
    p->nif = (struct nif *)(p->mem + p->reg.offset);
    p->tx = (struct ring *)((char *)p->nif + p->nif->ring_ofs[0]);
    p->rx = (struct ring *)((char *)p->nif + p->nif->ring_ofs[p->nif->tx_rings + p->nif->host_tx_rings]);
    return 1;
}

static struct port open_port(const char *name, uint32_t slots, uint32_t extra) {
    struct port p;
    CHECK(try_port(&p, name,
                   (struct reg){.mode = 1, .tx_slots = slots, .rx_slots = slots, .extra_bufs = extra}));
    return p;
}

static uint32_t next(struct ring *r, uint32_t i) { return i + 1 == r->num_slots ? 0 : i + 1; }

static char *buf_of(struct ring *r, uint32_t idx) {
    return (char *)r + r->buf_ofs + (uint64_t)idx * r->nr_buf_size;
}

/* Queues up to `most` numbered frames; returns how many. */
static uint32_t put(struct ring *r, uint64_t *number, uint32_t most) {
    uint32_t i = r->head, n = 0;
    for (; i != r->tail && n < most; i = next(r, i), n++) {
        uint64_t word[2] = {*number, ~*number};
        memcpy(buf_of(r, r->slot[i].buf_idx), word, 16);
        r->slot[i].len = 60;
        ++*number;
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    r->head = r->cur = i;
    return n;
}

/* Takes all frames, which must continue from `number`; returns how many. */
static uint32_t take(struct ring *r, uint64_t *number) {
    uint32_t i = r->head, n = 0;
    for (; i != r->tail; i = next(r, i), n++) {
        uint64_t word[2];
        memcpy(word, buf_of(r, r->slot[i].buf_idx), 16);
        if (word[0] != *number || word[1] != ~*number) {
            fprintf(stderr, "frame %lu is %lu\n", *number, word[0]);
            exit(1);
        }
        ++*number;
    }
    r->head = r->cur = i;
    return n;
}

/*
 * Passes frames between two processes over a pipe, each once and in order; prints the longest time
 * without a frame.
 */
static void pair(const char *name, double seconds) {
    char ends[2][64];
    snprintf(ends[0], 64, "%s{1", name);
    snprintf(ends[1], 64, "%s}1", name);
    struct port from = open_port(ends[0], 256, 0);
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    double end = now() + seconds;
    uint64_t number = 0;
    if (child == 0) {
        struct port to = open_port(ends[1], 256, 0);
        double last = now(), worst = 0;
        while (now() < end) {
            struct pollfd p = {.fd = to.fd, .events = POLLIN};
            CHECK(poll(&p, 1, 10000) >= 0 && !(p.revents & POLLERR));
            double t = now();
            if (take(to.rx, &number) > 0) {
                worst = t - last > worst ? t - last : worst;
                last = t;
            }
            CHECK(getppid() == parent);
        }
        worst = now() - last > worst ? now() - last : worst;
        printf("frames %lu worst %.0f ms\n", number, worst * 1e3);
        exit(number > 0 ? 0 : 1);
    }
    while (now() < end + 0.2) {
        struct pollfd p = {.fd = from.fd, .events = POLLOUT};
        CHECK(poll(&p, 1, 100) >= 0 && !(p.revents & POLLERR));
        put(from.tx, &number, 1 + below(200));
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/*
 * Passes frames until the process is killed, and exchanges buffers for extra ones if there are any.
 */
static void doomed(const char *name, uint32_t extra) {
    struct port p = open_port(name, 128, extra);
    uint32_t spare[64], have = 0;
    for (uint32_t b = p.nif->bufs_head; b && have < 64; memcpy(&b, buf_of(p.tx, b), 4))
        spare[have++] = b;
    /* Only this process knows these buffers, as in lb; sometimes it gives them back. */
    p.nif->bufs_head = 0;
    uint64_t number = any();
    for (;;) {
        put(p.tx, &number, below(100));
        if (have && p.tx->head != p.tx->tail) {
            uint32_t i = p.tx->head, k = below(have), b = p.tx->slot[i].buf_idx;
            p.tx->slot[i].buf_idx = spare[k];
            p.tx->slot[i].flags |= 1;
            spare[k] = b;
        }
        for (uint32_t i = p.rx->head; i != p.rx->tail && below(8); i = p.rx->head = p.rx->cur = next(p.rx, i))
            if (have && below(4) == 0) {
                uint32_t k = below(have), b = p.rx->slot[i].buf_idx;
                p.rx->slot[i].buf_idx = spare[k];
                p.rx->slot[i].flags |= 1;
                spare[k] = b;
            }
        struct pollfd f = {.fd = p.fd, .events = POLLIN | POLLOUT};
        switch (below(4)) {
        case 0: poll(&f, 1, 1); break;
        case 1: ioctl(p.fd, NIOCTXSYNC, 0); break;
        default: ioctl(p.fd, NIOCRXSYNC, 0);
        }
    }
}

/* Prints how many buffers can be allocated, and whether every name is free. */
static void whole(int pipes) {
    struct port p;
    CHECK(try_port(&p, "whole{1", (struct reg){.mode = 1, .tx_slots = 64, .rx_slots = 64, .extra_bufs = 1000000}));
    printf("%u", p.reg.extra_bufs);
    close(p.fd);
    for (int i = 0; i < pipes; i++)
        for (int end = 0; end < 2; end++) {
            char name[64];
            snprintf(name, 64, "d%d%c1", i, "{}"[end]);
            struct port q;
            if (!try_port(&q, name, (struct reg){.mode = 1, .tx_slots = 64, .rx_slots = 64, .flags = 0x800}))
                printf(" %s:%s", name, strerrorname_np(errno));
            else {
                munmap(q.mem, q.reg.memsize);
                close(q.fd);
            }
        }
    puts("");
}

/*
 * Starts many processes with many pipes each; prints the smallest number of frames that a pipe
 * carried.
 */
static void many(int clients, int pipes, double seconds) {
    int ready[2], done[2];
    CHECK(pipe(ready) == 0 && pipe(done) == 0);
    for (int c = 0; c < clients; c++) {
        if (fork())
            continue;
        struct port a[64], b[64];
        uint64_t sent[64] = {0}, seen[64] = {0};
        CHECK(pipes <= 64);
        for (int i = 0; i < pipes; i++) {
            char name[64];
            snprintf(name, 64, "c%d_%d{1", c, i);
            a[i] = open_port(name, 32, 0);
            *strchr(name, '{') = '}';
            b[i] = open_port(name, 32, 0);
        }
        CHECK(write(ready[1], "r", 1) == 1);
        char go;
        CHECK(read(done[0], &go, 1) == 1);
        double end = now() + seconds;
        while (now() < end)
            for (int i = 0; i < pipes; i++) {
                CHECK(ioctl(a[i].fd, NIOCTXSYNC, 0) == 0);
                put(a[i].tx, &sent[i], 16);
                CHECK(ioctl(a[i].fd, NIOCTXSYNC, 0) == 0);
                struct pollfd f = {.fd = b[i].fd, .events = POLLIN};
                CHECK(poll(&f, 1, 120000) == 1);
                take(b[i].rx, &seen[i]);
            }
        uint64_t least = -1;
        for (int i = 0; i < pipes; i++)
            least = seen[i] < least ? seen[i] : least;
        printf("least %lu\n", least);
        fflush(stdout);
        CHECK(read(done[0], &go, 1) == 1);
        exit(0);
    }
    char byte;
    for (int c = 0; c < clients; c++)
        CHECK(read(ready[0], &byte, 1) == 1);
    puts("ready");
    fflush(stdout);
    getchar();
    for (int c = 0; c < clients; c++)
        CHECK(write(done[1], "g", 1) == 1);
    getchar();
    for (int c = 0; c < clients; c++)
        CHECK(write(done[1], "g", 1) == 1);
    int status, bad = 0;
    while (wait(&status) > 0)
        bad |= status;
    exit(bad ? 1 : 0);
}

/* ---- hostile ---- */

static const char *const NAMES[] = {"h{1", "h}1", "h{2", "h", "vale0:a", "vale0:b", "vale1:c", "h/t", "", "{", "val", "pers0",
                                    "h{1", "h}1", "lo", "nosuch", "a-very-long-name-of-a-port-that-no-port-ever-has-had{12345"};
static struct port mine[16];
static int fds[16];

static uint64_t number(void) {
    switch (below(7)) {
    case 0: return 0;
    case 1: return below(4);
    case 2: return below(70000);
    case 3: return -1;
    case 4: return 1ull << below(64);
    case 5: return (uint64_t)mine[below(16)].mem + below(1 << 20);
    default: return any();
    }
}

static void scribble(void) {
    struct port *p = &mine[below(16)];
    if (!p->mem)
        return;
    struct ring *r = below(2) ? p->tx : p->rx;
    if ((char *)r < p->mem || (char *)r + 4096 > p->mem + p->reg.memsize)
        return;
    switch (below(6)) {
    case 0: r->head = number(); break;
    case 1: r->cur = number(); break;
    case 2: r->tail = number(); break;
    case 3: r->slot[below(200)] = (struct slot){number(), number(), number(), number()}; break;
    case 4: ((volatile uint32_t *)r)[below(512)] = number(); break;
    default: ((volatile uint64_t *)p->mem)[below(1 << 17)] = number();
    }
}

static void request(int fd) {
    static struct { uint64_t word[64]; } body;
    struct reg good = {.mode = 1 + below(8), .tx_slots = number(), .rx_slots = 64, .tx_rings = below(4),
                       .extra_bufs = below(300), .flags = below(3) ? 0 : number(), .mem_id = below(4)};
    for (int i = 0; i < 64; i++)
        body.word[i] = number();
    if (below(2))
        memcpy(&body, &good, sizeof good);
    struct header h = {.version = below(8) ? 14 : number(), .reqtype = below(3) ? 1 : below(20),
                       .body = below(12) ? (uint64_t)&body : number()};
    /* Lists of options: short, cyclic, and very long. */
    static struct { uint64_t next; uint32_t type, status; uint64_t size; } *list;
    static const int MANY = 1000000;
    if (!list) {
        list = mmap(0, MANY * 24ul, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (int i = 0; i < MANY; i++)
            list[i].next = (uint64_t)&list[(i + 1) % MANY], list[i].type = 9;
    }
    if (below(4) == 0) {
        int i = below(100);
        list[i].type = below(8), list[i].size = number();
        list[i].next = below(3) ? 0 : below(2) ? (uint64_t)&list[i] : number();
        h.options = below(3) ? (uint64_t)&list[i] : below(2) ? (uint64_t)&list[500] : number();
    }
    strncpy(h.name, NAMES[below(sizeof NAMES / sizeof *NAMES)], 63);
    if (below(30) == 0)
        memset(h.name, 255, 64);
    ioctl(fd, NIOCCTRL, &h);
}

static void *sync_forever(void *arg) {
    (void)arg;
    for (;;) {
        int fd = __atomic_load_n(&fds[rand() % 16], __ATOMIC_RELAXED);
        ioctl(fd, rand() % 2 ? NIOCTXSYNC : NIOCRXSYNC, 0);
        struct pollfd p = {.fd = fd, .events = rand()};
        poll(&p, 1, 0);
    }
    return 0;
}

static void look_for(const char *secret) {
    struct port *p = &mine[below(16)];
    if (!p->mem)
        return;
    size_t from = below(p->reg.memsize > 1 << 24 ? 1 << 24 : p->reg.memsize) & ~4095ul;
    if (memmem(p->mem + from, 4096, secret, strlen(secret))) {
        puts("leak");
        exit(3);
    }
}

static void hostile(double seconds) {
    double end = now() + seconds;
    pthread_t thread;
    for (int i = 0; i < 16; i++)
        fds[i] = -1;
    pthread_create(&thread, 0, sync_forever, 0);
    signal(SIGBUS, SIG_DFL);
    for (uint64_t round = 0; now() < end; round++) {
        int i = below(16);
        struct port *p = &mine[i];
        switch (below(12)) {
        case 0:
        case 1:
            if (fds[i] >= 0)
                close(fds[i]);
            if (p->mem)
                munmap(p->mem, p->reg.memsize);
            *p = (struct port){.fd = -1};
            if (below(2) && try_port(p, NAMES[below(17)], (struct reg){.mode = 1, .tx_slots = 1 + below(300), .extra_bufs = below(50)}))
                fds[i] = p->fd;
            else
                fds[i] = open(device, O_RDWR | O_CLOEXEC);
            break;
        case 2: request(fds[i]); break;
        case 3: {
            uint64_t arg[40];
            for (int k = 0; k < 40; k++)
                arg[k] = number();
            static const uint32_t CALLS[] = {NIOCREGIF, NIOCGINFO, NIOCCTRL, 0xc1106996u, 0x6990, NIOCTXSYNC};
            ioctl(fds[i], below(8) ? CALLS[below(6)] : (uint32_t)any() & 0xc0ffffff, arg);
            break;
        }
        case 4: {
            char bytes[64] = {0};
            off_t at = number();
            if (below(2))
                (void)!pwrite(fds[i], bytes, below(64), at);
            else
                (void)!pread(fds[i], bytes, below(64), at);
            (void)!ftruncate(fds[i], number());
            if (p->mem && below(8) == 0)
                madvise(p->mem, 1 << 20, MADV_REMOVE);
            break;
        }
        case 5: {
            int copy = dup(fds[i]);
            if (fork() == 0) {
                ioctl(copy, NIOCRXSYNC, 0);
                _exit(0);
            }
            close(copy);
            wait(0);
            break;
        }
        case 6: look_for("SECRET-SECRET"); break;
        default: scribble();
        }
    }
    printf("survived\n");
    exit(0);
}

/* Sends frames that no other program may see. */
static void secret(void) {
    struct port p = open_port("s{1", 256, 0), q = open_port("s}1", 256, 0);
    for (;;) {
        for (uint32_t i = p.tx->head; i != p.tx->tail; i = p.tx->head = p.tx->cur = next(p.tx, i)) {
            memset(buf_of(p.tx, p.tx->slot[i].buf_idx), 0, 64);
            strcpy(buf_of(p.tx, p.tx->slot[i].buf_idx), "SECRET-SECRET");
            p.tx->slot[i].len = 60;
        }
        CHECK(ioctl(p.fd, NIOCTXSYNC, 0) == 0 && ioctl(q.fd, NIOCRXSYNC, 0) == 0);
        q.rx->head = q.rx->cur = q.rx->tail;
        CHECK(ioctl(q.fd, NIOCRXSYNC, 0) == 0 && ioctl(p.fd, NIOCTXSYNC, 0) == 0);
        usleep(1000);
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    device = argv[1];
    const char *verb = argv[2];
    double first = argc > 3 ? atof(argv[3]) : 0, second = argc > 4 ? atof(argv[4]) : 0;
    double third = argc > 5 ? atof(argv[5]) : 0;
    if (strcmp(verb, "pair") == 0)
        pair(argv[3], second);
    else if (strcmp(verb, "doomed") == 0) {
        seed = 1 + (uint64_t)second;
        doomed(argv[3], third);
    } else if (strcmp(verb, "whole") == 0)
        whole(first);
    else if (strcmp(verb, "many") == 0)
        many(first, second, third);
    else if (strcmp(verb, "hostile") == 0) {
        seed = 1 + (uint64_t)second;
        srand(second);
        hostile(first);
    } else if (strcmp(verb, "secret") == 0)
        secret();
    else
        CHECK(!"a verb");
    return 0;
}
