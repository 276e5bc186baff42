/* SPDX-License-Identifier: Apache-2.0 */
/* The words behind the numbers of wire.h. */
#include "base/str.h"
#include "egress/wire.h"

#define TEXT(e, text) [e] = (text),
#define REASON(e, v, t) [e] = { (v), (t) },

static const struct {
	enum eg_verdict verdict;
	const char *text;
} reasons[EG_REASON_COUNT] = { EG_REASONS(REASON) };
static const char *const verdicts[EG_VERDICT_COUNT] = { EG_VERDICTS(TEXT) };
static const char *const vias[EG_VIA_COUNT] = { EG_VIAS(TEXT) };

static const char *word(const char *const *table, size_t n, unsigned i)
{
	return i < n && table[i] ? table[i] : "?";
}

const char *eg_reason_text(unsigned reason)
{
	return reason > EG_R_NONE && reason < EG_REASON_COUNT ? reasons[reason].text : "?";
}

enum eg_verdict eg_reason_verdict(unsigned reason)
{
	return reason < EG_REASON_COUNT ? reasons[reason].verdict : EG_UNDECIDED;
}

const char *eg_verdict_text(unsigned verdict)
{
	return word(verdicts, ARRAY_LEN(verdicts), verdict);
}

const char *eg_via_text(unsigned via)
{
	return word(vias, ARRAY_LEN(vias), via);
}
