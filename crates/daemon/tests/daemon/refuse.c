/*
 * refuse PROGRAM WORD..: runs a program and denies it AF_XDP queues, as drivers do that provide no
 * queue while their interface is down.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Size of struct sockaddr_xdp in bytes; the daemon binds no other address of this size. */
#define XDP_ADDRESS 16
#define AT(field) offsetof(struct seccomp_data, field)

int main(int argc, char **argv) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bind, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, XDP_ADDRESS, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENETDOWN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 1;
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
