# SPDX-License-Identifier: Apache-2.0
LOST = {("init", "wait4"), ("init", "write"), ("supervisor", "read"), ("supervisor", "write")}
HARMLESS = {}
