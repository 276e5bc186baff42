/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brig-scope UNIT bus|direct: asks systemd to put brig into a new delegated scope.  Run by
 * brig, so that brig itself carries no D-Bus.  Standard input is brig's connection, to a bus
 * or directly to the service manager.  What went wrong is one line on standard error.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

/* StartTransientUnit(s name, s mode, a(sv) properties, a(sa(sv)) auxiliary units) */
static int start_scope(sd_bus *bus, const char *unit, sd_bus_error *error)
{
	return sd_bus_call_method(bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
		"org.freedesktop.systemd1.Manager", "StartTransientUnit", error, NULL,
		"ssa(sv)a(sa(sv))", unit, "fail", 4,
		"Description", "s", "brig sandbox",
		"Delegate", "b", 1,
		/* 0 is the process that connected, by the socket's credentials.  brig did; its
		 * number could mean another process in systemd's pid namespace. */
		"PIDs", "au", 1, (uint32_t)0,
		/* a scope that failed leaves nothing behind in the manager */
		"CollectMode", "s", "inactive-or-failed",
		0);
}

int main(int argc, char **argv)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus *bus = NULL;

	if (argc != 3)
		return 2;
	int r = sd_bus_new(&bus);
	if (r >= 0)
		r = sd_bus_set_fd(bus, STDIN_FILENO, STDIN_FILENO);
	if (r >= 0)
		r = sd_bus_set_bus_client(bus, strcmp(argv[2], "bus") == 0);
	if (r >= 0)
		r = sd_bus_start(bus);
	if (r >= 0)
		r = start_scope(bus, argv[1], &error);
	if (r >= 0)
		return 0;
	fprintf(stderr, "systemd gave no scope: %s\n",
		error.message ? error.message : strerror(-r));
	return 1;
}
