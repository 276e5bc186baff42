/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler of filters, against libseccomp's and against a direct evaluation of the rules. */
#include "seccomp_ask.h"

#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

static struct seccomp_cond random_cond(uint64_t *seed, unsigned char arg)
{
	return (struct seccomp_cond){
		.arg = arg,
		.op = (enum seccomp_op)(rnd(seed) % 8),
		.low32 = rnd(seed) % 2,
		.mask = interesting(seed),
		.value = interesting(seed),
	};
}

/* Policies of many shapes, among them ones far longer than a jump reaches. */
static void compiler_agrees_with_definition(void **state)
{
	(void)state;
	static const uint32_t actions[] = { ALLOW, ERR(1), ERR(38),
					    SECCOMP_RET_KILL_PROCESS,
					    SECCOMP_RET_TRAP, SECCOMP_RET_LOG };
	enum { CALLS = 480, RULES = 600 };
	struct seccomp_verdict *calls = calloc(CALLS, sizeof *calls);
	struct seccomp_rule *rules = calloc(RULES, sizeof *rules);
	uint64_t seed = 20260101;
	size_t longest = 0;

	assert_non_null(calls);
	assert_non_null(rules);
	for (int round = 0; round < 40; round++) {
		size_t used = 0;
		uint64_t runs = 1 + rnd(&seed) % 40; /* how often it changes */
		for (size_t i = 0; i < CALLS; i++) {
			calls[i] = (struct seccomp_verdict){
				.otherwise = i && rnd(&seed) % runs ?
						     calls[i - 1].otherwise :
						     actions[rnd(&seed) % 6],
			};
			size_t n = rnd(&seed) % 6 == 0 ? rnd(&seed) % 5 : 0;
			if (used + n > RULES)
				continue;
			calls[i].rules = &rules[used];
			calls[i].nrules = n;
			for (; n > 0; n--, used++) {
				rules[used].action = actions[rnd(&seed) % 6];
				rules[used].nconds =
					(unsigned char)(rnd(&seed) % 4);
				for (int k = 0; k < 3; k++)
					rules[used].conds[k] = random_cond(
						&seed,
						(unsigned char)(rnd(&seed) % 6));
			}
		}
		struct seccomp_policy p = { native(), calls, CALLS, ERR(38),
					    ERR(99), SECCOMP_RET_KILL_PROCESS };
		struct sock_filter *insns = NULL;
		unsigned short len = 0;
		assert_int_equal(seccomp_bpf_compile(&p, &insns, &len), 0);
		assert_true(bpf_sim_valid(insns, len));
		longest = len > longest ? len : longest;
		for (int nr = -2; nr < CALLS + 4; nr++) {
			for (int n = 0; n < 60; n++) {
				struct seccomp_data d = {
					.nr = n == 59 ? nr | 0x40000000 : nr,
					.arch = n == 58 ? FOREIGN : native(),
				};
				fill_args(&d, &seed);
				assert_int_equal(bpf_sim_run(insns, len, &d, NULL),
						 evaluate(&p, &d));
			}
		}
		free(insns);
	}
	print_message("longest program: %zu instructions\n", longest);
	assert_true(longest > 600);

	rules[0].nconds = 1;
	rules[0].conds[0].arg = 6;
	calls[0].rules = rules;
	calls[0].nrules = 1;
	struct seccomp_policy p = { .calls = calls, .ncalls = 1 };
	struct sock_filter *insns = NULL;
	unsigned short len;
	assert_int_equal(seccomp_bpf_compile(&p, &insns, &len), -EINVAL);

	/* Too many different answers for one filter. */
	for (size_t i = 0; i < CALLS; i++) {
		calls[i].rules = rules;
		calls[i].nrules = RULES;
	}
	for (size_t i = 0; i < RULES; i++) {
		rules[i].nconds = 3;
		rules[i].action = ERR(i);
		for (int k = 0; k < 3; k++)
			rules[i].conds[k] = (struct seccomp_cond){
				.arg = (unsigned char)k, .op = SECCOMP_OP_GT,
				.value = i * 7919 + HIGH * i
			};
	}
	p.ncalls = CALLS;
	assert_int_equal(seccomp_bpf_compile(&p, &insns, &len), -E2BIG);
	free(rules);
	free(calls);
}

/* The filter libseccomp makes of the same rules. */
static struct sock_filter *libseccomp_compile(const struct seccomp_policy *p,
					      uint32_t fallback, size_t *len)
{
	static const enum scmp_compare ops[] = {
		SCMP_CMP_EQ, SCMP_CMP_NE, SCMP_CMP_LT, SCMP_CMP_LE,
		SCMP_CMP_GT, SCMP_CMP_GE, SCMP_CMP_MASKED_EQ,
	};
	scmp_filter_ctx ctx = seccomp_init(fallback);
	assert_non_null(ctx);
	assert_int_equal(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH,
					  p->foreign), 0);
	for (size_t nr = 0; nr < p->ncalls; nr++) {
		const struct seccomp_verdict *v = &p->calls[nr];
		if (v->otherwise != fallback)
			assert_int_equal(seccomp_rule_add(ctx, v->otherwise,
							  (int)nr, 0), 0);
		for (size_t r = 0; r < v->nrules; r++) {
			struct scmp_arg_cmp cmp[6];
			for (unsigned i = 0; i < v->rules[r].nconds; i++) {
				const struct seccomp_cond *c =
					&v->rules[r].conds[i];
				bool masked = c->op == SECCOMP_OP_MASKED_EQ;
				cmp[i] = (struct scmp_arg_cmp){
					c->arg, ops[c->op],
					masked ? c->mask : c->value,
					masked ? c->value : 0
				};
			}
			assert_int_equal(seccomp_rule_add_array(
						 ctx, v->rules[r].action, (int)nr,
						 v->rules[r].nconds, cmp), 0);
		}
	}
	int fd = memfd_create("bpf", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(seccomp_export_bpf(ctx, fd), 0);
	seccomp_release(ctx);
	off_t size = lseek(fd, 0, SEEK_END);
	struct sock_filter *f = malloc((size_t)size);
	assert_non_null(f);
	assert_int_equal(pread(fd, f, (size_t)size, 0), size);
	close(fd);
	*len = (size_t)size / sizeof *f;
	return f;
}

static void compiler_agrees_with_libseccomp(void **state)
{
	(void)state;
	enum { CALLS = 335, RULES = 200 };
	struct seccomp_verdict calls[CALLS];
	static struct seccomp_rule rules[RULES];
	uint64_t seed = 7;

	for (int round = 0; round < 12; round++) {
		size_t used = 0;
		uint32_t fallback = round % 2 ? ERR(1) : ERR(38);
		for (size_t nr = 0; nr < CALLS; nr++) {
			bool known = seccomp_call_name((int)nr);
			calls[nr] = (struct seccomp_verdict){
				.otherwise = !known || rnd(&seed) % 4 ? fallback :
									ALLOW };
			if (!known || calls[nr].otherwise == ALLOW ||
			    rnd(&seed) % 5 || used + 3 > RULES)
				continue;
			calls[nr].rules = &rules[used];
			/* Alternatives on one argument, or one conjunction:
			 * what profiles contain. */
			bool alternatives = rnd(&seed) % 2;
			calls[nr].nrules = alternatives ? 1 + rnd(&seed) % 3 : 1;
			unsigned char arg = (unsigned char)(rnd(&seed) % 4);
			for (size_t r = 0; r < calls[nr].nrules; r++, used++) {
				rules[used].action = ALLOW;
				rules[used].nconds = alternatives ? 1 : 2;
				for (unsigned char i = 0; i < 2; i++) {
					struct seccomp_cond c = random_cond(
						&seed, (unsigned char)(arg + i));
					c.op %= 7;
					if (alternatives)
						c.op = r % 2 ? SECCOMP_OP_EQ :
							       SECCOMP_OP_MASKED_EQ;
					if (!c.mask)
						c.mask = 1;
					c.value &= c.op == SECCOMP_OP_MASKED_EQ ?
							   c.mask : UINT64_MAX;
					c.low32 = false;
					rules[used].conds[i] = c;
				}
			}
		}
		struct seccomp_policy p = {
			native(), calls, CALLS, fallback,
			SECCOMP_RET_KILL_THREAD, SECCOMP_RET_KILL_THREAD
		};
		struct sock_filter *ours = NULL, *theirs;
		unsigned short len = 0;
		size_t their_len;
		assert_int_equal(seccomp_bpf_compile(&p, &ours, &len), 0);
		theirs = libseccomp_compile(&p, fallback, &their_len);
		for (int nr = 0; nr < 600; nr++) {
			for (int n = 0; n < 300; n++) {
				struct seccomp_data d = { .nr = nr,
							  .arch = native() };
				fill_args(&d, &seed);
				/* Also hit the compared values themselves. */
				if (n % 3 == 0 && nr < CALLS && calls[nr].nrules)
					for (unsigned i = 0; i < 2; i++) {
						const struct seccomp_cond *c =
							&calls[nr].rules[0].conds[i];
						d.args[c->arg] = c->value + (uint64_t)(n % 9 / 3) - 1;
					}
				uint32_t a = bpf_sim_run(ours, len, &d, NULL);
				uint32_t b = bpf_sim_run(theirs, their_len, &d,
							 NULL);
				if (a != b)
					fail_msg("round %d nr %d: %#x, theirs %#x,"
						 " meant %#x", round, nr, a, b,
						 evaluate(&p, &d));
			}
		}
		struct seccomp_data d = { .nr = 0, .arch = FOREIGN };
		assert_int_equal(bpf_sim_run(ours, len, &d, NULL),
				 bpf_sim_run(theirs, their_len, &d, NULL));
		d = (struct seccomp_data){ .nr = 0x40000001, .arch = native() };
		assert_int_equal(bpf_sim_run(ours, len, &d, NULL),
				 SECCOMP_RET_KILL_THREAD);
		free(ours);
		free(theirs);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compiler_agrees_with_definition),
		cmocka_unit_test(compiler_agrees_with_libseccomp),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
