/* SPDX-License-Identifier: Apache-2.0 */
/* The names of error numbers, as profiles may have them instead of the number. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "confine/seccomp_profile.h"

#define N(name) { #name, name }

static const struct {
	const char *name;
	unsigned number;
} names[] = {
	N(EPERM), N(ENOENT), N(ESRCH), N(EINTR), N(EIO), N(ENXIO), N(E2BIG),
	N(ENOEXEC), N(EBADF), N(ECHILD), N(EAGAIN), N(ENOMEM), N(EACCES),
	N(EFAULT), N(ENOTBLK), N(EBUSY), N(EEXIST), N(EXDEV), N(ENODEV),
	N(ENOTDIR), N(EISDIR), N(EINVAL), N(ENFILE), N(EMFILE), N(ENOTTY),
	N(ETXTBSY), N(EFBIG), N(ENOSPC), N(ESPIPE), N(EROFS), N(EMLINK), N(EPIPE),
	N(EDOM), N(ERANGE), N(EDEADLOCK), N(ENAMETOOLONG), N(ENOLCK), N(ENOSYS),
	N(ENOTEMPTY), N(ELOOP), N(ENOMSG), N(EIDRM), N(ECHRNG), N(EL2NSYNC),
	N(EL3HLT), N(EL3RST), N(ELNRNG), N(EUNATCH), N(ENOCSI), N(EL2HLT),
	N(EBADE), N(EBADR), N(EXFULL), N(ENOANO), N(EBADRQC), N(EBADSLT),
	N(EBFONT), N(ENOSTR), N(ENODATA), N(ETIME), N(ENOSR), N(ENONET), N(ENOPKG),
	N(EREMOTE), N(ENOLINK), N(EADV), N(ESRMNT), N(ECOMM), N(EPROTO),
	N(EMULTIHOP), N(EDOTDOT), N(EBADMSG), N(EOVERFLOW), N(ENOTUNIQ), N(EBADFD),
	N(EREMCHG), N(ELIBACC), N(ELIBBAD), N(ELIBSCN), N(ELIBMAX), N(ELIBEXEC),
	N(EILSEQ), N(ERESTART), N(ESTRPIPE), N(EUSERS), N(ENOTSOCK),
	N(EDESTADDRREQ), N(EMSGSIZE), N(EPROTOTYPE), N(ENOPROTOOPT),
	N(EPROTONOSUPPORT), N(ESOCKTNOSUPPORT), N(ENOTSUP), N(EPFNOSUPPORT),
	N(EAFNOSUPPORT), N(EADDRINUSE), N(EADDRNOTAVAIL), N(ENETDOWN),
	N(ENETUNREACH), N(ENETRESET), N(ECONNABORTED), N(ECONNRESET), N(ENOBUFS),
	N(EISCONN), N(ENOTCONN), N(ESHUTDOWN), N(ETOOMANYREFS), N(ETIMEDOUT),
	N(ECONNREFUSED), N(EHOSTDOWN), N(EHOSTUNREACH), N(EALREADY),
	N(EINPROGRESS), N(ESTALE), N(EUCLEAN), N(ENOTNAM), N(ENAVAIL), N(EISNAM),
	N(EREMOTEIO), N(EDQUOT), N(ENOMEDIUM), N(EMEDIUMTYPE), N(ECANCELED),
	N(ENOKEY), N(EKEYEXPIRED), N(EKEYREVOKED), N(EKEYREJECTED), N(EOWNERDEAD),
	N(ENOTRECOVERABLE), N(ERFKILL), N(EWOULDBLOCK), N(EDEADLK), N(EOPNOTSUPP),
	N(EHWPOISON),
};

static uint64_t number_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i].name, name) == 0)
			return names[i].number;
	return 0;
}

int profile_get_errno(const struct reader *r, const json_t *obj, const char *number_key,
		      const char *name_key, uint64_t *out)
{
	const json_t *name = profile_get(obj, name_key);
	char word[SHOWN_MAX];

	int ret = profile_get_number(r, obj, number_key, ERRNO_MAX, EPERM, out);
	if (ret < 0 || !name)
		return ret;
	if (!json_is_string(name))
		return profile_bad(r, "\"%s\" is not a string", name_key);
	const uint64_t number = number_of(json_string_value(name));
	if (!number) {
		ret = profile_bad(r, "\"%s\": unknown error \"%s\"", name_key,
				  profile_shown(json_string_value(name), word));
		err_fix(r->err, "Names are those of errno(3), like EPERM.");
		return ret;
	}
	/* which of the two was meant is not for us to say */
	if (profile_get(obj, number_key) && *out != number)
		return profile_bad(r, "\"%s\" is %llu, but \"%s\" says %s, which is %llu",
				   number_key, (unsigned long long)*out, name_key,
				   json_string_value(name), (unsigned long long)number);
	*out = number;
	return 0;
}
