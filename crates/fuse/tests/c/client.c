/* Clients that use only open, ioctl, mmap, poll and similar calls. One scenario per argument. */
#define _GNU_SOURCE
#include "netmap.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *device;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s (errno %d: %s)\n", __FILE__, __LINE__, #what,       \
                    errno, strerror(errno));                                                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct port {
    int fd;
    struct reg reg;
    char *mem;
    struct nif *nif;
    struct ring *tx, *rx;
};

static int control(int fd, const char *name, int type, void *body) {
    struct header h = {.version = 14, .reqtype = type, .body = (uint64_t)body};
    strncpy(h.name, name, 63);
    return ioctl(fd, NIOCCTRL, &h);
}

static struct port map_port(int fd, struct reg reg) {
    struct port p = {.fd = fd, .reg = reg};
    p.mem = mmap(0, reg.memsize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p.mem != MAP_FAILED);
    p.nif = (struct nif *)(p.mem + reg.offset);
    p.tx = (struct ring *)((char *)p.nif + p.nif->ring_ofs[0]);
    p.rx = (struct ring *)((char *)p.nif + p.nif->ring_ofs[p.nif->tx_rings + p.nif->host_tx_rings]);
    return p;
}

static struct port open_port(const char *name) {
    int fd = open(device, O_RDWR);
    CHECK(fd >= 0);
    struct reg reg = {.mode = 1};
    CHECK(control(fd, name, 1, &reg) == 0);
    return map_port(fd, reg);
}

static uint32_t next(struct ring *r, uint32_t i) { return i + 1 == r->num_slots ? 0 : i + 1; }

static char *buf(struct ring *r, uint32_t i) {
    return (char *)r + r->buf_ofs + (uint64_t)r->slot[i].buf_idx * r->nr_buf_size;
}

static uint32_t avail(struct ring *r) {
    int n = (int)r->tail - (int)r->cur;
    return n < 0 ? n + r->num_slots : n;
}

/* Queues one frame that contains `word`, without a sync. */
static void put(struct port *p, uint64_t word) {
    struct ring *r = p->tx;
    CHECK(avail(r) > 0);
    uint32_t i = r->head;
    memcpy(buf(r, i), &word, 8);
    r->slot[i].len = 60;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    r->head = r->cur = next(r, i);
}

/* Takes a frame that has arrived; returns its word. */
static uint64_t take(struct port *p) {
    struct ring *r = p->rx;
    CHECK(avail(r) > 0);
    uint32_t i = r->head;
    uint64_t word;
    CHECK(r->slot[i].len == 60);
    memcpy(&word, buf(r, i), 8);
    r->head = r->cur = next(r, i);
    return word;
}

static int wait_for(int fd, int events, int ms) {
    struct pollfd p = {.fd = fd, .events = events};
    int n = poll(&p, 1, ms);
    CHECK(n >= 0);
    return n ? p.revents : 0;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Starts a child that runs `work` and must succeed. */
static pid_t child(void (*work)(void)) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        work();
        exit(0);
    }
    return pid;
}

static void join(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define ROUNDS 1000

static void echo(void) {
    struct port p = open_port("x}1");
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(wait_for(p.fd, POLLIN, 120000) & POLLIN);
        put(&p, take(&p) + 1);
        CHECK(ioctl(p.fd, NIOCTXSYNC, 0) == 0);
    }
    /* Waits until the other end has seen the last frame. */
    while (!(wait_for(p.fd, POLLIN, 120000) & POLLIN))
        ;
}

static void ping_pong(void) {
    struct port p = open_port("x{1");
    pid_t other = child(echo);
    double start = now();
    for (int i = 0; i < ROUNDS; i++) {
        put(&p, i);
        CHECK(ioctl(p.fd, NIOCTXSYNC, 0) == 0);
        CHECK(wait_for(p.fd, POLLIN, 120000) & POLLIN);
        CHECK(take(&p) == (uint64_t)i + 1);
    }
    printf("round trip %.1f us\n", (now() - start) / ROUNDS * 1e6);
    put(&p, 0);
    CHECK(ioctl(p.fd, NIOCTXSYNC, 0) == 0);
    join(other);
}

static int epoll_flags;

static void epoll_echo(void) {
    struct port p = open_port("x}1");
    int ep = epoll_create1(0), seen = 0;
    struct epoll_event e = {.events = EPOLLIN | epoll_flags};
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, p.fd, &e) == 0);
    while (seen < ROUNDS) {
        CHECK(epoll_wait(ep, &e, 1, 120000) == 1);
        /* An edge-triggered program must continue until there are no more frames. */
        while (avail(p.rx)) {
            put(&p, take(&p) + 1);
            seen++;
        }
        CHECK(ioctl(p.fd, NIOCTXSYNC, 0) == 0);
    }
    sleep(1);
}

static void epoll_ping(void) {
    pid_t other = child(epoll_echo);
    struct port p = open_port("x{1");
    int ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN | epoll_flags};
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, p.fd, &e) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        put(&p, i);
        CHECK(ioctl(p.fd, NIOCTXSYNC, 0) == 0);
        CHECK(epoll_wait(ep, &e, 1, 120000) == 1 && (e.events & EPOLLIN));
        CHECK(take(&p) == (uint64_t)i + 1);
    }
    join(other);
}

static void epoll_level(void) { epoll_ping(); }

static void epoll_edge(void) {
    epoll_flags = EPOLLET;
    epoll_ping();
}

static void select_works(void) {
    struct port a = open_port("x{1"), b = open_port("x}1");
    fd_set set;
    struct timeval zero = {0, 0}, long_enough = {10, 0};
    FD_ZERO(&set);
    FD_SET(b.fd, &set);
    CHECK(select(b.fd + 1, &set, 0, 0, &zero) == 0);
    put(&a, 5);
    CHECK(ioctl(a.fd, NIOCTXSYNC, 0) == 0);
    FD_SET(b.fd, &set);
    CHECK(select(b.fd + 1, &set, 0, 0, &long_enough) == 1);
    CHECK(take(&b) == 5);
}

static struct port inherited;

static void send_one(void) {
    put(&inherited, 42);
    CHECK(ioctl(inherited.fd, NIOCTXSYNC, 0) == 0);
}

static void fork_shares(void) {
    inherited = open_port("x{1");
    struct port b = open_port("x}1");
    join(child(send_one));
    CHECK(wait_for(b.fd, POLLIN, 120000) & POLLIN);
    CHECK(take(&b) == 42);
    /* The parent sees the child's changes of the ring. */
    CHECK(inherited.tx->head == 1);
}

static int pass[2];

static void receive_fd(void) {
    close(pass[0]);
    char space[CMSG_SPACE(sizeof(int))];
    struct reg reg;
    struct iovec iov = {&reg, sizeof reg};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
                       .msg_controllen = sizeof space};
    CHECK(recvmsg(pass[1], &m, 0) == sizeof reg);
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    /* The sender has closed its own files, or will do so soon. */
    struct port p = map_port(fd, reg);
    put(&p, 43);
    CHECK(ioctl(fd, NIOCTXSYNC, 0) == 0);
}

static void scm_rights(void) {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pass) == 0);
    pid_t receiver = child(receive_fd);
    struct port b = open_port("x}1");
    int fd = open(device, O_RDWR);
    struct reg reg = {.mode = 1};
    CHECK(control(fd, "x{1", 1, &reg) == 0);
    int twin = dup(fd);
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {&reg, sizeof reg};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
                       .msg_controllen = sizeof space};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &twin, sizeof twin);
    CHECK(sendmsg(pass[0], &m, 0) == sizeof reg);
    close(fd);
    close(twin);
    CHECK(wait_for(b.fd, POLLIN, 120000) & POLLIN);
    CHECK(take(&b) == 43);
    join(receiver);
}

static int ready[2];

static void hold_alone(void) {
    int fd = open(device, O_RDWR);
    struct reg reg = {.mode = 1, .flags = 0x800, .extra_bufs = 1000};
    CHECK(control(fd, "k{1", 1, &reg) == 0);
    CHECK(write(ready[1], "x", 1) == 1);
    pause();
}

/* Objects that only a killed client had bound are free again. */
static void killed(void) {
    char c;
    CHECK(pipe(ready) == 0);
    for (int i = 0; i < 20; i++) {
        pid_t pid = child(hold_alone);
        CHECK(read(ready[0], &c, 1) == 1);
        int fd = open(device, O_RDWR);
        struct reg reg = {.mode = 1};
        CHECK(control(fd, "k{1", 1, &reg) < 0 && errno == EBUSY);
        kill(pid, SIGKILL);
        waitpid(pid, 0, 0);
        double until = now() + 10;
        while (control(fd, "k{1", 1, &reg) < 0) {
            CHECK(errno == EBUSY && now() < until);
            usleep(100);
        }
        close(fd);
    }
}

static void close_then_bind(void) {
    for (int i = 0; i < 500; i++) {
        int fd = open(device, O_RDWR);
        struct reg reg = {.mode = 1, .flags = 0x800};
        CHECK(control(fd, "k{1", 1, &reg) == 0);
        close(fd);
    }
}

static void faults(void) {
    int fd = open(device, O_RDWR);
    CHECK(fd >= 0);
    CHECK(ioctl(fd, NIOCTXSYNC, 0) < 0 && errno == ENXIO);
    CHECK(ioctl(fd, NIOCCTRL, (void *)8) < 0 && errno == EFAULT);
    CHECK(control(fd, "x{1", 1, (void *)8) < 0 && errno == EFAULT);
    CHECK(control(fd, "x{1", 99, &fd) < 0 && errno == EINVAL);
    CHECK(ioctl(fd, 0x5401, 0) < 0 && errno == EOPNOTSUPP);
    /* The second half of this body is not mapped. */
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    struct reg *reg = (struct reg *)(pages + 4096 - 16);
    reg->offset = reg->memsize = 0;
    CHECK(control(fd, "x{1", 1, reg) < 0 && errno == EFAULT);
    CHECK(wait_for(fd, POLLIN, 0) & POLLERR);
    CHECK(ftruncate(fd, 0) < 0 && errno == EINVAL);
    CHECK(fallocate(fd, 0, 0, 4096) < 0 && errno == EOPNOTSUPP);
    char big[16] = {0};
    CHECK(pwrite(fd, big, 16, 1L << 50) < 0);
    struct oldreq old = {.version = 14};
    CHECK(ioctl(fd, NIOCGINFO, &old) == 0 && old.arg2 == 1);
    strcpy(old.name, "y{1");
    CHECK(ioctl(fd, NIOCREGIF, &old) == 0 && old.tx_slots == 1024 && old.memsize > old.offset);
    CHECK(ioctl(fd, NIOCREGIF, &old) < 0 && errno == EBUSY);
}

/* Measures the cost of calls. */
static void costs(void) {
    struct port a = open_port("x{1");
    int n = 200000;
    double start = now();
    for (int i = 0; i < n; i++)
        ioctl(a.fd, NIOCTXSYNC, 0);
    printf("TXSYNC idle %.2f us\n", (now() - start) / n * 1e6);
    start = now();
    for (int i = 0; i < n; i++)
        wait_for(a.fd, POLLOUT, 0);
    printf("poll ready %.2f us\n", (now() - start) / n * 1e6);
}

static double seconds = 3;

static void flood(void) {
    struct port p = open_port("x{1");
    double end = now() + seconds + 1;
    uint64_t word = 0;
    while (now() < end) {
        if (!(wait_for(p.fd, POLLOUT, 1000) & POLLOUT))
            continue;
        struct ring *r = p.tx;
        uint32_t n = avail(r), i = r->head;
        if (n > 512)
            n = 512;
        while (n--) {
            *(uint64_t *)buf(r, i) = word++;
            r->slot[i].len = 60;
            i = next(r, i);
        }
        r->head = r->cur = i;
    }
    exit(0);
}

/*
 * Passes frames of 64 bytes through a pipe as fast as possible; none is lost, and they stay in
 * order.
 */
static void rate(void) {
    pid_t sender = child(flood);
    struct port p = open_port("x}1");
    uint64_t expect = 0, polls = 0;
    CHECK(wait_for(p.fd, POLLIN, 120000) & POLLIN);
    double start = now(), end = start + seconds;
    while (now() < end) {
        polls++;
        if (!(wait_for(p.fd, POLLIN, 1000) & POLLIN))
            continue;
        struct ring *r = p.rx;
        uint32_t n = avail(r), i = r->head;
        while (n--) {
            CHECK(*(uint64_t *)buf(r, i) == expect);
            expect++;
            i = next(r, i);
        }
        r->head = r->cur = i;
    }
    double took = now() - start;
    printf("rate %.2f Mpps, %.0f frames a poll\n", expect / took / 1e6, (double)expect / polls);
    kill(sender, SIGKILL);
    waitpid(sender, 0, 0);
}

static void forever(void) {
    struct port p = open_port("x}1");
    printf("bound\n");
    fflush(stdout);
    int revents = wait_for(p.fd, POLLIN, 20000);
    CHECK(revents & POLLERR);
    /* A call in progress when the server ends gets one of several errors. */
    CHECK(ioctl(p.fd, NIOCRXSYNC, 0) < 0);
    CHECK(errno == ENOTCONN || errno == ECONNABORTED || errno == ECANCELED);
    CHECK(ioctl(p.fd, NIOCRXSYNC, 0) < 0 && errno == ENOTCONN);
    CHECK(p.rx->num_slots == 1024);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"ping_pong", ping_pong},     {"epoll_level", epoll_level}, {"epoll_edge", epoll_edge},
    {"select", select_works},     {"fork", fork_shares},        {"scm_rights", scm_rights},
    {"killed", killed},           {"faults", faults},           {"costs", costs},
    {"rate", rate},               {"forever", forever},         {"close_then_bind", close_then_bind},
};

int main(int argc, char **argv) {
    CHECK(argc == 3);
    device = argv[1];
    for (unsigned i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(argv[2], scenarios[i].name) == 0) {
            scenarios[i].run();
            return 0;
        }
    fprintf(stderr, "no scenario %s\n", argv[2]);
    return 2;
}
