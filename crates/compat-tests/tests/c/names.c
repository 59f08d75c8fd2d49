/* Parses each line of its input as the name of a port, and prints the fields of the request. */
#include <libnetmap.h>
#include <stdio.h>
#include <string.h>

static void
silent(struct nmctx *ctx, const char *message)
{
	(void)ctx;
	(void)message;
}

static void
print_request(struct nmport_d *d)
{
	const struct nmreq_register *r = &d->reg;
	const struct nmreq_pools_info *i = nmport_extmem_getinfo(d);
	const struct nmreq_opt_offsets *o =
	    (void *)nmreq_find_option(&d->hdr, NETMAP_REQ_OPT_OFFSETS);

	printf("%s mode=%u,%u flags=%lu mem=%u rings=%u,%u,%u,%u slots=%u,%u", d->hdr.nr_name,
	    r->nr_mode, r->nr_ringid, (unsigned long)r->nr_flags, r->nr_mem_id, r->nr_tx_rings,
	    r->nr_rx_rings, r->nr_host_tx_rings, r->nr_host_rx_rings, r->nr_tx_slots, r->nr_rx_slots);
	if (i)
		printf(" extmem=%u,%u,%u,%u,%u,%u", i->nr_if_pool_objtotal, i->nr_if_pool_objsize,
		    i->nr_ring_pool_objtotal, i->nr_ring_pool_objsize, i->nr_buf_pool_objtotal,
		    i->nr_buf_pool_objsize);
	if (o)
		printf(" offsets=%lu,%u", (unsigned long)o->nro_initial_offset, o->nro_offset_bits);
	printf("\n");
}

int
main(void)
{
	char line[1024];

	nmctx_get()->error = silent;
	nmport_enable_option("offset");
	while (fgets(line, sizeof(line), stdin)) {
		struct nmport_d *d;

		line[strcspn(line, "\n")] = '\0';
		d = nmport_prepare(line);
		if (!d) {
			printf("refused\n");
			continue;
		}
		print_request(d);
		nmport_undo_prepare(d);
	}
	return 0;
}
