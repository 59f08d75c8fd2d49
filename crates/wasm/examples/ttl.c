/* A model in C: a link that decrements the TTL of packets, as some routers in a row do.
 *
 *   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o ttl.wasm ttl.c
 *   slipring emulate -i eth0 -i eth1 -L wasm,ttl.wasm,3
 *
 * Parameter 0: number of hops. Handles IPv4 in Ethernet without tags; other frames pass unchanged.
 * Packets whose TTL is too low are lost.
 */
#define EXPORT(name) __attribute__((export_name(#name))) name
#define IMPORT(name) __attribute__((import_module("slipring"), import_name(#name))) name

enum { IP = 14, TTL = IP + 8, CHECKSUM = IP + 10, HEADER = IP + 20 };
enum { KEEP = 0, LOSE = 1 };

static unsigned char frame[HEADER];

double IMPORT(param)(int index);

int EXPORT(slipring_abi)(void) { return 1; }
int EXPORT(slipring_header)(void) { return (int)(__SIZE_TYPE__)frame; }
int EXPORT(slipring_header_len)(void) { return HEADER; }
int EXPORT(slipring_rewrites)(void) { return 1; }

int EXPORT(lose)(long long now_ns, int len, long long number)
{
    (void)now_ns;
    (void)number;
    if (len < HEADER || frame[12] != 0x08 || frame[13] != 0x00 || frame[IP] >> 4 != 4)
        return KEEP;
    int hops = (int)param(0);
    if (frame[TTL] <= hops)
        return LOSE;
    frame[TTL] = (unsigned char)(frame[TTL] - hops);
    /* RFC 1624: the amount subtracted from the high byte of a word is added to the checksum. */
    unsigned sum = ((unsigned)frame[CHECKSUM] << 8 | frame[CHECKSUM + 1]) + ((unsigned)hops << 8);
    sum = (sum & 0xffff) + (sum >> 16);
    if (sum == 0xffff)
        sum = 0; /* Both values mean the same; senders write 0. */
    frame[CHECKSUM] = (unsigned char)(sum >> 8);
    frame[CHECKSUM + 1] = (unsigned char)sum;
    return KEEP;
}
