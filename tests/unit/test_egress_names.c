/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, allow-list names and synthetic addresses of the egress process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "egress/names.h"

static void classes(void **state)
{
	static const struct {
		const char *text;
		enum addr_class class;
	} table[] = {
		{ "192.0.2.1", ADDR_PUBLIC },
		{ "8.8.8.8", ADDR_PUBLIC },
		{ "126.255.255.255", ADDR_PUBLIC },
		{ "128.0.0.0", ADDR_PUBLIC },
		{ "172.15.255.255", ADDR_PUBLIC },
		{ "172.32.0.0", ADDR_PUBLIC },
		{ "100.63.255.255", ADDR_PUBLIC },
		{ "100.128.0.0", ADDR_PUBLIC },
		{ "198.17.255.255", ADDR_PUBLIC },
		{ "198.20.0.0", ADDR_PUBLIC },
		{ "127.0.0.1", ADDR_LOOPBACK },
		{ "127.255.255.254", ADDR_LOOPBACK },
		{ "0.0.0.0", ADDR_SPECIAL },
		{ "0.1.2.3", ADDR_SPECIAL },
		{ "10.0.0.1", ADDR_PRIVATE },
		{ "172.16.0.1", ADDR_PRIVATE },
		{ "172.31.255.255", ADDR_PRIVATE },
		{ "192.168.255.1", ADDR_PRIVATE },
		{ "100.64.0.1", ADDR_PRIVATE },
		{ "100.127.255.255", ADDR_PRIVATE },
		{ "169.254.169.254", ADDR_LINK },
		{ "169.254.0.1", ADDR_LINK },
		{ "168.63.129.16", ADDR_METADATA },
		{ "100.100.100.200", ADDR_METADATA },
		{ "192.0.0.192", ADDR_METADATA },
		{ "198.18.1.1", ADDR_SPECIAL },
		{ "198.19.255.255", ADDR_SPECIAL },
		{ "224.0.0.1", ADDR_SPECIAL },
		{ "239.255.255.250", ADDR_SPECIAL },
		{ "240.0.0.1", ADDR_SPECIAL },
		{ "255.255.255.255", ADDR_SPECIAL },
		{ "2001:db8::1", ADDR_PUBLIC },
		{ "2606:4700::1", ADDR_PUBLIC },
		{ "::1", ADDR_LOOPBACK },
		{ "::", ADDR_SPECIAL },
		{ "::2", ADDR_MAPPED },
		{ "::ffff:127.0.0.1", ADDR_MAPPED },
		{ "::ffff:8.8.8.8", ADDR_MAPPED },
		{ "::ffff:0:8.8.8.8", ADDR_MAPPED },
		{ "::127.0.0.1", ADDR_MAPPED },
		{ "fe80::1", ADDR_LINK },
		{ "febf::1", ADDR_LINK },
		{ "fec0::1", ADDR_PRIVATE },
		{ "fc00::1", ADDR_PRIVATE },
		{ "fd12:3456::1", ADDR_PRIVATE },
		{ "fd62:7269:6720::1", ADDR_PRIVATE },
		{ "fd00:ec2::254", ADDR_METADATA },
		{ "ff02::1", ADDR_SPECIAL },
		{ "100::1", ADDR_SPECIAL },
		{ "64:ff9b::808:808", ADDR_PUBLIC },
		{ "64:ff9b::7f00:1", ADDR_LOOPBACK },
		{ "64:ff9b::a00:1", ADDR_MAPPED },
		{ "64:ff9b::a9fe:a9fe", ADDR_LINK },
		{ "64:ff9b:1::808:808", ADDR_PRIVATE },
		{ "2002:808:808::1", ADDR_PUBLIC },
		{ "2002:7f00:1::1", ADDR_LOOPBACK },
		{ "2002:c0a8:1::1", ADDR_MAPPED },
		/* Teredo: server 8.8.8.8, client 10.0.0.1 and 8.8.8.8, inverted */
		{ "2001:0:808:808::f5ff:fffe", ADDR_MAPPED },
		{ "2001:0:808:808::f7f7:f7f7", ADDR_PUBLIC },
		{ "2001:0:7f00:1::f7f7:f7f7", ADDR_LOOPBACK },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct eaddr a;
		if (!addr_parse(table[i].text, &a) ||
		    addr_classify(&a, NULL) != table[i].class)
			fail_msg("%s is of class %d", table[i].text, addr_classify(&a, NULL));
	}
}

static void spellings(void **state)
{
	static const char *const bad[] = {
		"", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", " 127.0.0.1",
		"127.0.0.1 ", "127.0.0.1:80", "[::1]", "::1%lo", "fe80::1%eth0", "1.2.3.256",
		"127.000.000.001.", "①.1.1.1", "::ffff:1.2.3", "1::2::3",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct eaddr a;
		if (addr_parse(bad[i], &a))
			fail_msg("\"%s\" is taken for an address", bad[i]);
	}
}

static void canonical(void **state)
{
	static const struct {
		const char *raw;
		const char *name; /* NULL: refused */
		size_t len;       /* 0: strlen */
	} table[] = {
		{ "allowed.test", "allowed.test", 0 },
		{ "ALLOWED.Test", "allowed.test", 0 },
		{ "localhost", "localhost", 0 },
		{ "_dmarc.x-y.test", "_dmarc.x-y.test", 0 },
		{ "xn--80ak6aa92e.test", "xn--80ak6aa92e.test", 0 },
		{ "0xg.test", "0xg.test", 0 },
		{ "1.2.3.4.test", "1.2.3.4.test", 0 },
		{ "", NULL, 0 },
		{ ".", NULL, 0 },
		{ "allowed.test.", NULL, 0 },
		{ ".allowed.test", NULL, 0 },
		{ "a..b", NULL, 0 },
		{ "a b.test", NULL, 0 },
		{ "allowed.test@evil.test", NULL, 0 },
		{ "allowed.test\0.evil.test", NULL, 23 },
		{ "allowed.test\0", NULL, 13 },
		{ "allowed.test:443", NULL, 0 },
		{ "allowed.test/x", NULL, 0 },
		{ "all%6fwed.test", NULL, 0 },
		{ "\xd0\xb0llowed.test", NULL, 0 }, /* a Cyrillic letter */
		{ "allowed\xe3\x80\x82test", NULL, 0 }, /* an ideographic full stop */
		{ "-a.test", NULL, 0 },
		{ "a-.test", NULL, 0 },
		{ "a.test-", NULL, 0 },
		{ "*.test", NULL, 0 },
		{ "127.0.0.1", NULL, 0 },
		{ "127.1", NULL, 0 },
		{ "2130706433", NULL, 0 },
		{ "0x7f000001", NULL, 0 },
		{ "0X7F.1", NULL, 0 },
		{ "a.0x", NULL, 0 },
		{ "allowed.123", NULL, 0 },
		{ "::1", NULL, 0 },
	};
	char out[EG_NAME_LEN], big[301];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		size_t len = table[i].len ? table[i].len : strlen(table[i].raw);
		bool good = names_canon(table[i].raw, len, out);
		if (good != (table[i].name != NULL) || (good && !streq(out, table[i].name)))
			fail_msg("\"%s\": %s", table[i].raw, good ? out : "refused");
	}
	memset(big, 'a', sizeof big);
	assert_true(names_canon(big, 63, out));
	assert_false(names_canon(big, 64, out));
	for (size_t i = 50; i < sizeof big; i += 50)
		big[i] = '.';
	assert_true(names_canon(big, 253, out));
	assert_false(names_canon(big, 254, out));
	assert_false(names_canon(big, 300, out));
}

static struct names *list(const char *first, ...)
{
	struct names *n = names_new();
	char why[128];
	va_list ap;

	assert_non_null(n);
	va_start(ap, first);
	for (const char *e = first; e; e = va_arg(ap, const char *))
		assert_int_equal(names_add(n, e, why, sizeof why), 0);
	va_end(ap);
	return n;
}

static void matching(void **state)
{
	struct names *n = list("allowed.test", "*.wild.test:443", "db.test:5432,5433",
			       "192.0.2.7:80", "198.51.100.0/24:443", "[2001:db8::/32]:443", NULL);
	static const struct {
		const char *name;
		uint16_t port;
		bool yes;
	} table[] = {
		{ "allowed.test", 443, true },
		{ "allowed.test", 80, true },
		{ "allowed.test", 22, false },
		{ "x.allowed.test", 443, false },
		{ "notallowed.test", 443, false },
		{ "allowed.test.evil.test", 443, false },
		{ "a.wild.test", 443, true },
		{ "a.b.wild.test", 443, true },
		{ "a.wild.test", 80, false },
		{ "wild.test", 443, false },
		{ ".wild.test", 443, false },
		{ "awild.test", 443, false },
		{ "db.test", 5433, true },
		{ "db.test", 443, false },
		{ "test", 443, false },
		{ "192.0.2.7", 80, false }, /* an address is no name */
	};
	static const struct {
		const char *addr;
		uint16_t port;
		int bits;
	} addrs[] = {
		{ "192.0.2.7", 80, 32 }, { "192.0.2.7", 443, -1 }, { "192.0.2.8", 80, -1 },
		{ "198.51.100.9", 443, 24 }, { "198.51.101.9", 443, -1 },
		{ "2001:db8:9::1", 443, 32 }, { "2001:db9::1", 443, -1 },
		{ "::ffff:192.0.2.7", 80, -1 },
	};
	char why[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (names_allow(n, table[i].name, table[i].port) != table[i].yes)
			fail_msg("%s:%u", table[i].name, table[i].port);
	for (size_t i = 0; i < ARRAY_LEN(addrs); i++) {
		struct eaddr a;
		assert_true(addr_parse(addrs[i].addr, &a));
		if (names_address(n, &a, addrs[i].port) != addrs[i].bits)
			fail_msg("%s:%u", addrs[i].addr, addrs[i].port);
	}
	assert_true(names_known(n, "db.test"));
	assert_true(names_exact(n, "db.test"));
	assert_true(names_known(n, "x.wild.test"));
	assert_false(names_exact(n, "x.wild.test"));
	assert_int_equal(names_add(n, "@registries", why, sizeof why), -EINVAL);
	assert_int_equal(names_add(n, "bad name", why, sizeof why), -EINVAL);
	assert_int_equal(names_add(n, "x.test:0", why, sizeof why), -EINVAL);
	assert_int_equal(names_add(n, "x.test:70000", why, sizeof why), -EINVAL);
	names_free(n);
	n = names_new();
	assert_false(names_known(n, "allowed.test"));
	names_free(n);
}

static void synthetic(void **state)
{
	struct names *n = list("allowed.test", "*.wild.test", NULL);
	struct eaddr a, b;
	uint32_t num, one = names_number(n, "allowed.test");
	char name[64];

	(void)state;
	assert_int_equal(one, NAMES_FIRST);
	assert_int_equal(names_number(n, "allowed.test"), one);
	names_synthetic(one, AF_INET, &a);
	names_synthetic(one, AF_INET6, &b);
	assert_true(names_is_synthetic(&a, &num));
	assert_int_equal(num, one);
	assert_true(names_is_synthetic(&b, &num));
	assert_int_equal(num, one);
	assert_string_equal(names_of(n, num), "allowed.test");
	/* the same number behind other bits of the /64 is another address */
	b.b[9] = 1;
	assert_true(names_is_synthetic(&b, &num));
	assert_int_equal(num, 0);
	assert_true(addr_parse("198.18.0.1", &a) && names_is_synthetic(&a, &num));
	assert_int_equal(num, 0);
	assert_true(addr_parse("198.20.0.1", &a) && !names_is_synthetic(&a, &num));
	/* more names than there is room for: old ones go, and no number comes twice */
	uint32_t last = one;
	for (unsigned i = 0; i < NAMES_MAX + 500; i++) {
		snprintf(name, sizeof name, "n%u.wild.test", i);
		num = names_number(n, name);
		assert_true(num > last);
		last = num;
	}
	assert_null(names_of(n, one + 1));
	assert_string_equal(names_of(n, one), "allowed.test");
	assert_string_equal(names_of(n, last), name);
	assert_true(names_number(n, "n0.wild.test") > last);
	/* to the end of the numbers */
	for (unsigned i = 0; num; i++) {
		snprintf(name, sizeof name, "m%u.wild.test", i);
		num = names_number(n, name);
		assert_true(num <= NAMES_LAST);
	}
	assert_int_equal(names_number(n, "allowed.test"), one);
	names_synthetic(NAMES_LAST, AF_INET, &a);
	char text[ADDR_TEXT];
	addr_format(&a, text);
	assert_string_equal(text, "198.19.255.254");
	names_free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes),   cmocka_unit_test(spellings),
		cmocka_unit_test(canonical), cmocka_unit_test(matching),
		cmocka_unit_test(synthetic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
