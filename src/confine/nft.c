/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two nftables rules, spoken to the kernel directly: the `nft` program need not be
 * installed.  A program inside can listen on any port from 1024 by itself, so brig
 * cannot have a listener on one; instead the kernel sends what is meant for an
 * address of the allow-list elsewhere.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "confine/netlink.h"
#include "confine/netns_allow.h"

#define TABLE "brig"
#define CHAIN "out"

static void begin(struct nl *n, int type, uint16_t flags, unsigned char family)
{
	const struct nfgenmsg g = { .nfgen_family = family, .version = NFNETLINK_V0 };

	nl_begin(n, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &g, sizeof g);
}

static void batch(struct nl *n, uint16_t type)
{
	const struct nfgenmsg g = { .nfgen_family = AF_UNSPEC,
				    .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	nl_begin(n, type, 0, &g, sizeof g);
	nl_end(n);
}

static void expr_open(struct nl *n, const char *name)
{
	nl_open(n, NFTA_LIST_ELEM);
	nl_text(n, NFTA_EXPR_NAME, name);
	nl_open(n, NFTA_EXPR_DATA);
}

static void expr_close(struct nl *n)
{
	nl_close(n);
	nl_close(n);
}

/* Register 1 := len bytes of the packet. */
static void payload(struct nl *n, uint32_t base, uint32_t offset, uint32_t len)
{
	expr_open(n, "payload");
	nl_be32(n, NFTA_PAYLOAD_DREG, NFT_REG_1);
	nl_be32(n, NFTA_PAYLOAD_BASE, base);
	nl_be32(n, NFTA_PAYLOAD_OFFSET, offset);
	nl_be32(n, NFTA_PAYLOAD_LEN, len);
	expr_close(n);
}

static void value(struct nl *n, uint16_t type, const void *data, size_t len)
{
	nl_open(n, type);
	nl_attr(n, NFTA_DATA_VALUE, data, len);
	nl_close(n);
}

static void compare(struct nl *n, uint32_t op, const void *data, size_t len)
{
	expr_open(n, "cmp");
	nl_be32(n, NFTA_CMP_SREG, NFT_REG_1);
	nl_be32(n, NFTA_CMP_OP, op);
	value(n, NFTA_CMP_DATA, data, len);
	expr_close(n);
}

static void and_mask(struct nl *n, const void *mask, size_t len)
{
	static const unsigned char zero[16];

	expr_open(n, "bitwise");
	nl_be32(n, NFTA_BITWISE_SREG, NFT_REG_1);
	nl_be32(n, NFTA_BITWISE_DREG, NFT_REG_1);
	nl_be32(n, NFTA_BITWISE_LEN, (uint32_t)len);
	value(n, NFTA_BITWISE_MASK, mask, len);
	value(n, NFTA_BITWISE_XOR, zero, len);
	expr_close(n);
}

/*
 * Where to: anything but the sandbox's own loopback.  What can be called at all is
 * decided by the routes: the ranges of the allow-list and nothing else.  With `all`
 * the resolver is left out, which has its own socket at port 53.
 */
static void match_target(struct nl *n, int v6, int all)
{
	static const unsigned char loop4[] = { 127, 0, 0, 0 }, mask4[] = { 255, 0, 0, 0 };
	static const unsigned char loop6[16] = { [15] = 1 };
	static const unsigned char resolver[] = { 198, 18, 0, 1 };

	if (v6) {
		payload(n, NFT_PAYLOAD_NETWORK_HEADER, 24, sizeof loop6);
		compare(n, NFT_CMP_NEQ, loop6, sizeof loop6);
		return;
	}
	payload(n, NFT_PAYLOAD_NETWORK_HEADER, 16, sizeof loop4);
	if (all)
		compare(n, NFT_CMP_NEQ, resolver, sizeof resolver);
	and_mask(n, mask4, sizeof mask4);
	compare(n, NFT_CMP_NEQ, loop4, sizeof loop4);
}

static void match_tcp(struct nl *n, int all)
{
	static const unsigned char tcp = IPPROTO_TCP;
	static const unsigned char first[] = { 1024 >> 8, 1024 & 0xff };

	expr_open(n, "meta");
	nl_be32(n, NFTA_META_DREG, NFT_REG_1);
	nl_be32(n, NFTA_META_KEY, NFT_META_L4PROTO);
	expr_close(n);
	compare(n, NFT_CMP_EQ, &tcp, sizeof tcp);
	if (all)
		return;
	payload(n, NFT_PAYLOAD_TRANSPORT_HEADER, 2, sizeof first);
	compare(n, NFT_CMP_GTE, first, sizeof first);
}

static void redirect_to(struct nl *n, uint16_t port)
{
	const uint16_t be = htons(port);

	expr_open(n, "immediate");
	nl_be32(n, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	value(n, NFTA_IMMEDIATE_DATA, &be, sizeof be);
	expr_close(n);
	expr_open(n, "redir");
	nl_be32(n, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
	expr_close(n);
}

static void add_table_and_chain(struct nl *n, unsigned char family)
{
	begin(n, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_ACK, family);
	nl_text(n, NFTA_TABLE_NAME, TABLE);
	nl_end(n);
	begin(n, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_ACK, family);
	nl_text(n, NFTA_CHAIN_TABLE, TABLE);
	nl_text(n, NFTA_CHAIN_NAME, CHAIN);
	nl_open(n, NFTA_CHAIN_HOOK);
	nl_be32(n, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
	nl_be32(n, NFTA_HOOK_PRIORITY, (uint32_t)-100); /* where destinations change */
	nl_close(n);
	nl_text(n, NFTA_CHAIN_TYPE, "nat");
	nl_end(n);
}

static void add_rule(struct nl *n, uint16_t port, int v6, int all)
{
	const unsigned char family = v6 ? NFPROTO_IPV6 : NFPROTO_IPV4;

	add_table_and_chain(n, family);
	begin(n, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK, family);
	nl_text(n, NFTA_RULE_TABLE, TABLE);
	nl_text(n, NFTA_RULE_CHAIN, CHAIN);
	nl_open(n, NFTA_RULE_EXPRESSIONS);
	match_target(n, v6, all);
	match_tcp(n, all);
	redirect_to(n, port);
	nl_close(n);
	nl_end(n);
}

int nft_redirect(uint16_t port, int v6, int all)
{
	struct nl n;

	nl_init(&n);
	batch(&n, NFNL_MSG_BATCH_BEGIN);
	add_rule(&n, port, 0, all);
	if (v6)
		add_rule(&n, port, 1, all);
	batch(&n, NFNL_MSG_BATCH_END);
	return nl_talk(&n, NETLINK_NETFILTER, v6 ? 6 : 3);
}
