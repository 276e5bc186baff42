/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three steps.  (1) Each verdict becomes a decision graph whose nodes are
 * shared by content, so that equal verdicts are the same node and equal tails
 * of different checks exist once.  (2) Neighbouring numbers with the same node
 * become ranges, and the cheapest search tree over the ranges is found by
 * dynamic programming.  (3) The graph is written out backwards, so that the
 * distance of every jump is known when the jump is written.
 */
#include "confine/seccomp_bpf.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define ALL_BITS UINT32_MAX
#define X32_BIT 0x40000000u
#define REACH 255u /* jt and jf are 8 bits wide */
#define BUCKETS 1024u

/* What a search costs, in nanoseconds measured on x86_64: an instruction is
 * checked, converted and jitted once per load; one step of depth is walked
 * once for every number by the kernel's search for constant verdicts. */
#define COST_INSN 120u
#define COST_STEP 4u
#define CHAIN_MAX 4u

enum { PREFIX_NONE, PREFIX_AND, PREFIX_LOAD, PREFIX_LOAD_AND, PREFIXES };

struct node {
	bool ret;
	uint16_t jump;   /* BPF_JEQ, … */
	uint32_t word;   /* offset in struct seccomp_data */
	uint32_t mask;   /* applied before the comparison */
	uint32_t k;      /* operand, or the action of a ret */
	uint32_t yes, no;
	uint32_t next;   /* in its hash bucket */
	uint32_t pos[PREFIXES]; /* where it was written, per prefix */
};

struct range {
	uint32_t first, last;
	uint32_t node;
	uint32_t weight; /* how many real call numbers lie in it */
};

struct choice {
	uint32_t cost;
	uint16_t split; /* last range of the left half, or CHAIN */
	uint32_t background;
};
#define CHAIN UINT16_MAX

struct ctx {
	struct node *nodes;
	uint32_t nnodes, cap;
	uint32_t buckets[BUCKETS];
	struct range *ranges;
	uint32_t nranges;
	struct choice *table; /* nranges × nranges */
	struct sock_filter code[BPF_MAXINSNS]; /* in reverse */
	uint32_t alias[BPF_MAXINSNS]; /* latest trampoline to a position */
	uint32_t len;
	int err;
};

/* The value the accumulator is known to hold: a word, masked. */
struct acc {
	uint32_t word, mask;
};

static uint32_t intern(struct ctx *c, struct node n)
{
	uint32_t h = (n.k * 31u + n.word * 7u + n.yes) * 31u + n.no * 17u +
		     n.mask + n.jump;
	uint32_t *bucket = &c->buckets[(h ^ (h >> 12)) % BUCKETS];

	for (uint32_t i = *bucket; i != NONE; i = c->nodes[i].next) {
		const struct node *o = &c->nodes[i];
		if (o->ret == n.ret && o->jump == n.jump && o->word == n.word &&
		    o->mask == n.mask && o->k == n.k && o->yes == n.yes &&
		    o->no == n.no)
			return i;
	}
	/* Far more than fit a filter, and emit() recurses once per node. */
	if (c->nnodes == 2 * BPF_MAXINSNS) {
		c->err = -E2BIG;
		return 0;
	}
	if (c->nnodes == c->cap) {
		uint32_t cap = c->cap ? c->cap * 2 : 512;
		struct node *p = realloc(c->nodes, cap * sizeof *p);
		if (!p) {
			c->err = -ENOMEM;
			return 0;
		}
		c->nodes = p;
		c->cap = cap;
	}
	for (int i = 0; i < PREFIXES; i++)
		n.pos[i] = NONE;
	n.next = *bucket;
	c->nodes[c->nnodes] = n;
	*bucket = c->nnodes;
	return c->nnodes++;
}

static uint32_t ret(struct ctx *c, uint32_t action)
{
	return intern(c, (struct node){ .ret = true, .k = action });
}

static uint32_t test(struct ctx *c, uint16_t jump, uint32_t word, uint32_t mask,
		     uint32_t k, uint32_t yes, uint32_t no)
{
	if (yes == no)
		return yes;
	switch (jump) {
	case BPF_JGE:
		if (k == 0)
			return yes;
		break;
	case BPF_JGT:
		if (k == ALL_BITS)
			return no;
		break;
	case BPF_JSET:
		if (k == 0)
			return no;
		break;
	case BPF_JEQ:
		if (k & ~mask)
			return no;
		if (mask == 0)
			return yes;
		if (mask == ALL_BITS)
			break;
		/* One bit, or none of several: JSET leaves the accumulator
		 * alone and saves the AND. */
		if (k == 0)
			return test(c, BPF_JSET, word, ALL_BITS, mask, no, yes);
		if (k == mask && (mask & (mask - 1)) == 0)
			return test(c, BPF_JSET, word, ALL_BITS, mask, yes, no);
		break;
	default:
		break;
	}
	return intern(c, (struct node){ .jump = jump,
					.word = word,
					.mask = mask,
					.k = k,
					.yes = yes,
					.no = no });
}

/* One condition as a graph that ends in yes or no. */
static uint32_t condition(struct ctx *c, const struct seccomp_cond *cond,
			  uint32_t yes, uint32_t no)
{
	/* Both supported architectures are little-endian. */
	uint32_t lo = (uint32_t)offsetof(struct seccomp_data, args) +
		      8u * cond->arg;
	uint32_t hi = lo + 4;
	uint32_t vlo = (uint32_t)cond->value;
	uint32_t vhi = (uint32_t)(cond->value >> 32);
	uint32_t mlo = (uint32_t)cond->mask;
	uint32_t mhi = (uint32_t)(cond->mask >> 32);
	enum seccomp_op op = cond->op;

	/* These are the others with the two ends exchanged. */
	static const enum seccomp_op contrary[] = {
		[SECCOMP_OP_NE] = SECCOMP_OP_EQ,
		[SECCOMP_OP_LT] = SECCOMP_OP_GE,
		[SECCOMP_OP_LE] = SECCOMP_OP_GT,
		[SECCOMP_OP_MASKED_NE] = SECCOMP_OP_MASKED_EQ,
	};
	if (op == SECCOMP_OP_NE || op == SECCOMP_OP_LT ||
	    op == SECCOMP_OP_LE || op == SECCOMP_OP_MASKED_NE) {
		uint32_t swap = yes;
		yes = no;
		no = swap;
		op = contrary[op];
	}
	if (op == SECCOMP_OP_EQ || op == SECCOMP_OP_MASKED_EQ) {
		if (op == SECCOMP_OP_EQ)
			mlo = mhi = ALL_BITS;
		yes = test(c, BPF_JEQ, lo, mlo, vlo & mlo, yes, no);
		if (cond->low32)
			return yes;
		return test(c, BPF_JEQ, hi, mhi, vhi & mhi, yes, no);
	}
	if (op != SECCOMP_OP_GE && op != SECCOMP_OP_GT) {
		c->err = -EINVAL;
		return no;
	}
	uint16_t jump = op == SECCOMP_OP_GE ? BPF_JGE : BPF_JGT;
	uint32_t low = test(c, jump, lo, ALL_BITS, vlo, yes, no);
	if (cond->low32)
		return low;
	low = test(c, BPF_JEQ, hi, ALL_BITS, vhi, low, no);
	return test(c, BPF_JGT, hi, ALL_BITS, vhi, yes, low);
}

static uint32_t verdict(struct ctx *c, const struct seccomp_verdict *v)
{
	uint32_t node = ret(c, v->otherwise);

	for (size_t r = v->nrules; r-- > 0 && !c->err;) {
		const struct seccomp_rule *rule = &v->rules[r];
		uint32_t no = node;

		if (rule->nconds > SECCOMP_CONDS_MAX) {
			c->err = -EINVAL;
			break;
		}
		node = ret(c, rule->action);
		for (unsigned i = rule->nconds; i-- > 0;) {
			if (rule->conds[i].arg > 5) {
				c->err = -EINVAL;
				break;
			}
			node = condition(c, &rule->conds[i], node, no);
		}
	}
	return node;
}

static void add_range(struct ctx *c, uint32_t first, uint32_t last,
		      uint32_t node, uint32_t weight)
{
	struct range *end = &c->ranges[c->nranges];

	if (c->nranges && end[-1].node == node) {
		end[-1].last = last;
		end[-1].weight += weight;
		return;
	}
	*end = (struct range){ first, last, node, weight };
	c->nranges++;
}

static struct choice *choice_at(struct ctx *c, uint32_t i, uint32_t j)
{
	return &c->table[(size_t)i * c->nranges + j];
}

/* Cost of ranges i … j as "single numbers, else background"; NONE when some
 * range that is not the background is wider than one number. */
static uint32_t chain_cost(const struct ctx *c, uint32_t i, uint32_t j,
			   uint32_t background)
{
	uint32_t tests = 0, cost = 0, rest = 0;

	for (uint32_t r = i; r <= j; r++) {
		const struct range *x = &c->ranges[r];
		if (x->node == background) {
			rest += x->weight;
			continue;
		}
		if (x->first != x->last || ++tests > CHAIN_MAX)
			return NONE;
		cost += COST_INSN + COST_STEP * tests * x->weight;
	}
	return cost + COST_STEP * tests * rest;
}

static void choose(struct ctx *c, uint32_t i, uint32_t j)
{
	struct choice *best = choice_at(c, i, j);
	uint32_t weight = 0;

	*best = (struct choice){ .cost = NONE };
	for (uint32_t r = i; r <= j; r++)
		weight += c->ranges[r].weight;
	for (uint32_t k = i; k < j; k++) {
		uint32_t cost = COST_INSN + COST_STEP * weight +
				choice_at(c, i, k)->cost +
				choice_at(c, k + 1, j)->cost;
		if (cost < best->cost)
			*best = (struct choice){ .cost = cost,
						 .split = (uint16_t)k };
	}
	/* The background of a chain occurs among its first ranges, and no
	 * chain is longer than this. */
	if (j - i + 1 > 2 * CHAIN_MAX + 1)
		return;
	for (uint32_t r = i; r <= j && r <= i + CHAIN_MAX; r++) {
		uint32_t node = c->ranges[r].node;
		uint32_t cost = chain_cost(c, i, j, node);
		if (cost < best->cost)
			*best = (struct choice){ cost, CHAIN, node };
	}
}

static uint32_t tree(struct ctx *c, uint32_t i, uint32_t j)
{
	const uint32_t nr = offsetof(struct seccomp_data, nr);
	const struct choice *ch = choice_at(c, i, j);

	if (i == j)
		return c->ranges[i].node;
	if (ch->split != CHAIN) {
		uint32_t low = tree(c, i, ch->split);
		uint32_t high = tree(c, ch->split + 1u, j);
		return test(c, BPF_JGE, nr, ALL_BITS,
			    c->ranges[ch->split + 1u].first, high, low);
	}
	uint32_t node = ch->background;
	for (uint32_t r = j + 1; r-- > i;)
		if (c->ranges[r].node != ch->background)
			node = test(c, BPF_JEQ, nr, ALL_BITS,
				    c->ranges[r].first, c->ranges[r].node,
				    node);
	return node;
}

static uint32_t push(struct ctx *c, uint16_t code, uint32_t jt, uint32_t jf,
		     uint32_t k)
{
	if (c->len == BPF_MAXINSNS) {
		c->err = -E2BIG;
		return 0;
	}
	c->code[c->len] = (struct sock_filter){ code, (uint8_t)jt, (uint8_t)jf,
						k };
	c->alias[c->len] = NONE;
	return c->len++;
}

/*
 * A position from which target is reached and which is itself near enough for
 * a conditional jump written after `slack` more instructions.  When target is
 * too far this writes a trampoline: a copy of a return, or a JA.
 */
static uint32_t reach(struct ctx *c, uint32_t target, uint32_t slack)
{
	if (c->err || c->len + slack - target - 1 <= REACH)
		return target;
	uint32_t near = c->alias[target];
	if (near != NONE && c->len + slack - near - 1 <= REACH)
		return near;
	if (BPF_CLASS(c->code[target].code) == BPF_RET)
		near = push(c, BPF_RET | BPF_K, 0, 0, c->code[target].k);
	else
		near = push(c, BPF_JMP | BPF_JA, 0, 0, c->len - target - 1);
	if (!c->err)
		c->alias[target] = near;
	return near;
}

/* Writes the graph below a node for an accumulator that holds acc. */
static uint32_t emit(struct ctx *c, uint32_t id, struct acc acc)
{
	/* nodes is not reallocated any more: all of them exist by now. */
	struct node *n = &c->nodes[id];
	int prefix = n->mask == ALL_BITS ? PREFIX_LOAD : PREFIX_LOAD_AND;

	if (c->err)
		return 0;
	if (n->ret || (acc.word == n->word && acc.mask == n->mask))
		prefix = PREFIX_NONE;
	else if (acc.word == n->word && acc.mask == ALL_BITS)
		prefix = PREFIX_AND;
	if (n->pos[prefix] != NONE)
		return n->pos[prefix];

	if (n->ret)
		return n->pos[prefix] = push(c, BPF_RET | BPF_K, 0, 0, n->k);

	struct acc after = { n->word, n->mask };
	uint32_t yes = emit(c, n->yes, after);
	uint32_t no = emit(c, n->no, after);
	yes = reach(c, yes, 1); /* the trampoline of no may come between */
	no = reach(c, no, 0);
	if (c->err)
		return 0;
	uint32_t pos = push(c, (uint16_t)(BPF_JMP | BPF_K | n->jump),
			    c->len - yes - 1, c->len - no - 1, n->k);
	if (prefix == PREFIX_AND || prefix == PREFIX_LOAD_AND)
		pos = push(c, BPF_ALU | BPF_AND | BPF_K, 0, 0, n->mask);
	if (prefix == PREFIX_LOAD || prefix == PREFIX_LOAD_AND)
		pos = push(c, BPF_LD | BPF_W | BPF_ABS, 0, 0, n->word);
	return n->pos[prefix] = pos;
}

static int build(struct ctx *c, const struct seccomp_policy *p)
{
	c->ranges = calloc(p->ncalls + 2, sizeof *c->ranges);
	if (!c->ranges)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->ncalls && !c->err; i++)
		add_range(c, i, i, verdict(c, &p->calls[i]), 1);
	if (p->ncalls < X32_BIT)
		add_range(c, (uint32_t)p->ncalls, X32_BIT - 1, ret(c, p->above),
			  1);
	add_range(c, X32_BIT, UINT32_MAX, ret(c, p->x32), 1);
	if (c->err)
		return c->err;

	c->table = calloc((size_t)c->nranges * c->nranges, sizeof *c->table);
	if (!c->table)
		return -ENOMEM;
	for (uint32_t width = 1; width < c->nranges; width++)
		for (uint32_t i = 0; i + width < c->nranges; i++)
			choose(c, i, i + width);

	uint32_t root = test(c, BPF_JEQ, offsetof(struct seccomp_data, arch),
			     ALL_BITS, p->audit_arch,
			     tree(c, 0, c->nranges - 1), ret(c, p->foreign));
	if (c->err)
		return c->err;
	emit(c, root, (struct acc){ NONE, ALL_BITS });
	return c->err;
}

int seccomp_bpf_compile(const struct seccomp_policy *policy,
			struct sock_filter **insns, unsigned short *len)
{
	if (policy->ncalls > UINT16_MAX - 2)
		return -EINVAL;
	struct ctx *c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	for (size_t i = 0; i < BUCKETS; i++)
		c->buckets[i] = NONE;

	int r = build(c, policy);
	struct sock_filter *out = NULL;
	if (r == 0) {
		out = malloc(c->len * sizeof *out);
		if (!out)
			r = -ENOMEM;
	}
	if (r == 0) {
		for (uint32_t i = 0; i < c->len; i++)
			out[i] = c->code[c->len - 1 - i];
		*insns = out;
		*len = (unsigned short)c->len;
	}
	free(c->nodes);
	free(c->ranges);
	free(c->table);
	free(c);
	return r;
}
