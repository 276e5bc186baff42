/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_REGISTRIES_H
#define POLICY_REGISTRIES_H

#define BRIG_REGISTRIES "/etc/brig/registries"

/*
 * The group @registries of an allow-list: the hosts this machine's package
 * managers are configured for (variables, pip.conf, .npmrc, cargo's and go's
 * configuration) and those in /etc/brig/registries.  Only host names and ports
 * are taken from those files, never a path or a token.  The workspace is not
 * asked: it is not for a sandboxed command to say where the next one may go.
 *
 * Appends HOST:PORT entries to *out, each once.  home may be NULL.  0, -ENOMEM.
 */
int registries_find(const char *home, const char *(*env)(const char *name),
		    char ***out);

/* The host of one URL, as "HOST:PORT", into out.  -EINVAL when it has none that
 * an allow-list could name. */
int registries_host(const char *url, char *out, unsigned long cap);

#endif
