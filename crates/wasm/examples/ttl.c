/* A model in C: a link behind which packets have some hops less to live, as behind as many routers.
 *
 *   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o ttl.wasm ttl.c
 *   slipring emulate -i eth0 -i eth1 -L wasm,ttl.wasm,3
 *
 * Setting 0: how many hops. IPv4 in plain Ethernet; all else passes as it is. Packets that have not
 * enough left are lost.
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
    /* RFC 1624: what is taken from the high byte of a word is added to the checksum. */
    unsigned sum = ((unsigned)frame[CHECKSUM] << 8 | frame[CHECKSUM + 1]) + ((unsigned)hops << 8);
    sum = (sum & 0xffff) + (sum >> 16);
    if (sum == 0xffff)
        sum = 0; /* The same number; a sender writes 0. */
    frame[CHECKSUM] = (unsigned char)(sum >> 8);
    frame[CHECKSUM + 1] = (unsigned char)sum;
    return KEEP;
}
