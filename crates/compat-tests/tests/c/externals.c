/* Tests of the option EXTMEM, by a program that uses only open, ioctl, mmap and poll. */
#define _GNU_SOURCE
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "client.h"

#define SIZE (4 << 20)

static struct nmreq_opt_extmem
pages(void *mem, size_t size)
{
	struct nmreq_opt_extmem o = { .nro_opt.nro_reqtype = NETMAP_REQ_OPT_EXTMEM };

	o.nro_usrptr = (uintptr_t)mem;
	o.nro_info.nr_memsize = size;
	return o;
}

/* Creates a memory file, which other programs could truncate. */
static int
file(size_t size)
{
	int fd = memfd_create("pages", 0);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	return fd;
}

static char *
mapped(int fd, int flags)
{
	char *mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);

	CHECK(mem != MAP_FAILED);
	return mem;
}

static int
bind_in(struct port *p, const char *name, struct nmreq_opt_extmem *option)
{
	struct nmreq_header h = header(name, NETMAP_REQ_REGISTER, &p->reg);
	struct nmreq_register reg = { .nr_mode = NR_REG_ALL_NIC, .nr_tx_slots = 64, .nr_rx_slots = 64 };

	*p = (struct port){ .fd = device(), .reg = reg };
	h.nr_options = (uintptr_t)option;
	return call(p->fd, NIOCCTRL, &h);
}

static struct port
bound_in(const char *name, char *mem)
{
	struct nmreq_opt_extmem option = pages(mem, SIZE);
	struct port p;

	CHECK(bind_in(&p, name, &option) == 0 && option.nro_opt.nro_status == 0);
	p.mem = mem;
	p.nif = (struct netmap_if *)(mem + p.reg.nr_offset);
	return p;
}

static void
refused(struct nmreq_opt_extmem option, int error)
{
	struct port p;

	CHECK(bind_in(&p, "vale0:a", &option) == error);
	CHECK(option.nro_opt.nro_status == (uint32_t)error);
	CHECK(call(p.fd, NIOCTXSYNC, NULL) == ENXIO);
	close(p.fd);
}

static void
sends_and_receives(struct port *a, struct port *b)
{
	put(tx(a), 1, 42, 60, 0);
	CHECK(call(a->fd, NIOCTXSYNC, NULL) == 0 && call(b->fd, NIOCRXSYNC, NULL) == 0);
	CHECK(take(rx(b)) == 42);
}

static void
port_lies_in_the_pages_of_the_program(void)
{
	char *mem = mapped(file(SIZE), MAP_SHARED);
	struct port a = bound_in("vale0:a", mem), b = bound("vale0:b");

	CHECK(a.nif->ni_version == NETMAP_API && strcmp(a.nif->ni_name, "vale0:a") == 0);
	CHECK(tx(&a)->num_slots == 64 && (char *)tx(&a) < mem + SIZE);
	CHECK(a.reg.nr_memsize <= SIZE && a.reg.nr_mem_id > 1);
	sends_and_receives(&a, &b);
	sends_and_receives(&b, &a);
}

static void
anonymous_shared_memory_will_do(void)
{
	struct port a = bound_in("vale0:a", mapped(-1, MAP_SHARED | MAP_ANONYMOUS));
	struct port b = bound("vale0:b");

	sends_and_receives(&a, &b);
}

static void
huge_pages_will_do(void)
{
	int fd = memfd_create("pages", MFD_HUGETLB);
	struct port a, b = bound("vale0:b");
	char *mem;

	CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED && errno == ENOMEM) {
		printf("skipped: no huge pages\n");
		return;
	}
	CHECK(mem != MAP_FAILED);
	refused(pages(mem + 4096, SIZE / 2), EINVAL);
	a = bound_in("vale0:a", mem);
	sends_and_receives(&a, &b);
	sends_and_receives(&b, &a);
	CHECK(ftruncate(fd, 0) == 0);
	put(tx(&b), 3, 7, 60, 0);
	CHECK(call(b.fd, NIOCTXSYNC, NULL) == 0);
	CHECK(call(a.fd, NIOCRXSYNC, NULL) == EIO);
}

static void
private_memory_is_eopnotsupp(void)
{
	refused(pages(mapped(-1, MAP_PRIVATE | MAP_ANONYMOUS), SIZE), EOPNOTSUPP);
	refused(pages(mapped(file(SIZE), MAP_PRIVATE), SIZE), EOPNOTSUPP);
}

static void
file_on_a_disk_is_eopnotsupp(void)
{
	char name[] = "/var/tmp/slipring-XXXXXX";
	int fd = mkstemp(name);
	struct nmreq_opt_extmem o;

	CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, SIZE) == 0);
	o = pages(mapped(fd, MAP_SHARED), SIZE);
	refused(o, EOPNOTSUPP);
}

static void
read_only_pages_are_efault(void)
{
	char *mem = mapped(file(SIZE), MAP_SHARED);

	CHECK(mprotect(mem, SIZE, PROT_READ) == 0);
	refused(pages(mem, SIZE), EFAULT);
}

static void
pages_that_are_not_there_are_efault(void)
{
	char *mem = mapped(file(SIZE), MAP_SHARED);

	refused(pages((void *)4096, SIZE), EFAULT);
	refused(pages(mem, 2 * SIZE), EFAULT);
	CHECK(munmap(mem + SIZE / 2, 4096) == 0);
	refused(pages(mem, SIZE), EFAULT);
}

static void
sizes_that_cannot_be_are_einval(void)
{
	char *mem = mapped(file(SIZE), MAP_SHARED);
	struct nmreq_opt_extmem o;

	refused(pages(mem, 0), EINVAL);
	refused(pages(mem + 64, SIZE / 2), EINVAL);
	o = pages(mem, SIZE);
	o.nro_info.nr_ring_pool_objsize = 1 << 20;
	refused(o, EINVAL);
	o = pages(mem, SIZE);
	o.nro_info.nr_buf_pool_objsize = 1 << 16;
	refused(o, EINVAL);
}

static void
pages_that_hold_no_port_are_enomem(void)
{
	struct nmreq_opt_extmem o = pages(mapped(file(SIZE), MAP_SHARED), 2 * 4096);

	refused(o, ENOMEM);
}

static void
sizes_are_told(void)
{
	struct nmreq_opt_extmem o = pages(mapped(file(SIZE), MAP_SHARED), SIZE);
	struct port p;

	o.nro_info.nr_ring_pool_objtotal = 10;
	CHECK(bind_in(&p, "vale0:a", &o) == 0);
	CHECK(o.nro_info.nr_if_pool_objtotal == 2 && o.nro_info.nr_if_pool_objsize == 1024);
	CHECK(o.nro_info.nr_ring_pool_objtotal == 10 && o.nro_info.nr_ring_pool_objsize == 20480);
	CHECK(o.nro_info.nr_buf_pool_objtotal > 1800 && o.nro_info.nr_buf_pool_objtotal < 2048);
	CHECK(o.nro_info.nr_mem_id == p.reg.nr_mem_id && o.nro_info.nr_memsize == p.reg.nr_memsize);
}

static void
same_pages_are_the_same_memory(void)
{
	int fd = file(SIZE);
	struct port a = bound_in("vale0:a", mapped(fd, MAP_SHARED));
	struct port b = bound_in("vale0:b", mapped(fd, MAP_SHARED));
	struct port c = bound_in("vale0:c", mapped(file(SIZE), MAP_SHARED));

	CHECK(a.mem != b.mem && a.reg.nr_mem_id == b.reg.nr_mem_id);
	CHECK(a.reg.nr_mem_id != c.reg.nr_mem_id);
	sends_and_receives(&a, &b);
}

static void
who_has_not_brought_the_memory_is_eopnotsupp(void)
{
	struct port a = bound_in("x{1", mapped(file(SIZE), MAP_SHARED));
	struct nmreq_register reg = { .nr_mode = NR_REG_ALL_NIC };

	CHECK(try_register("x}1", reg) == EOPNOTSUPP);
	reg.nr_mem_id = a.reg.nr_mem_id;
	CHECK(try_register("x}1", reg) == 0);
}

static void
option_given_twice_is_einval_in_both(void)
{
	char *mem = mapped(file(SIZE), MAP_SHARED);
	struct nmreq_opt_extmem one = pages(mem, SIZE), two = pages(mem, SIZE);
	struct port p;

	one.nro_opt.nro_next = (uintptr_t)&two;
	CHECK(bind_in(&p, "vale0:a", &one) == EINVAL);
	CHECK(one.nro_opt.nro_status == EINVAL && two.nro_opt.nro_status == EINVAL);
}

/* Another program may truncate the file: the device and all other ports must survive that. */
static void
file_that_is_cut_off_ends_its_port_only(void)
{
	struct port c = bound("vale0:c"), d = bound("vale0:d"), a;
	int fd = file(SIZE);

	a = bound_in("vale0:a", mapped(fd, MAP_SHARED));
	sends_and_receives(&a, &c);
	CHECK(ftruncate(fd, 0) == 0);
	/* These calls access memory that no longer exists. */
	put(tx(&c), 3, 7, 60, 0);
	CHECK(call(c.fd, NIOCTXSYNC, NULL) == 0);
	CHECK(call(a.fd, NIOCRXSYNC, NULL) == EIO && call(a.fd, NIOCTXSYNC, NULL) == EIO);
	CHECK(polled(a.fd, POLLIN, 0) & POLLERR);
	CHECK(call(d.fd, NIOCRXSYNC, NULL) == 0);
	while (space(rx(&d)) > 1)
		take(rx(&d));
	CHECK(take(rx(&d)) == 7);
	close(a.fd);
	a = bound_in("vale0:a", mapped(file(SIZE), MAP_SHARED));
	sends_and_receives(&a, &c);
}

static void
holes_and_what_else_is_done_to_the_file_harm_nobody(void)
{
	struct port c = bound("vale0:c"), a;
	int fd = file(SIZE);
	char *mem = mapped(fd, MAP_SHARED);

	a = bound_in("vale0:a", mem);
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SIZE) == 0);
	put(tx(&c), 3, 7, 60, 0);
	CHECK(call(c.fd, NIOCTXSYNC, NULL) == 0);
	memset(mem, 0xff, SIZE);
	call(a.fd, NIOCTXSYNC, NULL);
	call(a.fd, NIOCRXSYNC, NULL);
	CHECK(munmap(mem, SIZE) == 0);
	put(tx(&c), 3, 8, 60, 0);
	CHECK(call(c.fd, NIOCTXSYNC, NULL) == 0);
}

/* A child can use memory that its parent has provided, because the mapping is shared. */
static void
child_uses_the_memory_of_its_parent(void)
{
	struct port a = bound_in("x{1", mapped(-1, MAP_SHARED | MAP_ANONYMOUS));
	struct port b = bound_in("x}1", a.mem);
	int status;

	if (fork() == 0) {
		put(tx(&a), 1, 9, 60, 0);
		_exit(call(a.fd, NIOCTXSYNC, NULL));
	}
	CHECK(wait(&status) > 0 && status == 0 && call(b.fd, NIOCRXSYNC, NULL) == 0);
	CHECK(take(rx(&b)) == 9);
}

#define SCENARIO(name) { #name, name }

static const struct scenario scenarios[] = {
	SCENARIO(port_lies_in_the_pages_of_the_program),
	SCENARIO(anonymous_shared_memory_will_do),
	SCENARIO(huge_pages_will_do),
	SCENARIO(private_memory_is_eopnotsupp),
	SCENARIO(file_on_a_disk_is_eopnotsupp),
	SCENARIO(read_only_pages_are_efault),
	SCENARIO(pages_that_are_not_there_are_efault),
	SCENARIO(sizes_that_cannot_be_are_einval),
	SCENARIO(pages_that_hold_no_port_are_enomem),
	SCENARIO(sizes_are_told),
	SCENARIO(same_pages_are_the_same_memory),
	SCENARIO(who_has_not_brought_the_memory_is_eopnotsupp),
	SCENARIO(option_given_twice_is_einval_in_both),
	SCENARIO(file_that_is_cut_off_ends_its_port_only),
	SCENARIO(holes_and_what_else_is_done_to_the_file_harm_nobody),
	SCENARIO(child_uses_the_memory_of_its_parent),
	{ NULL, NULL },
};

int
main(int argc, char **argv)
{
	return run_scenario(scenarios, argc, argv);
}
