/* placeholder until merged */
#ifndef POLICY_TOOLCHAIN_H
#define POLICY_TOOLCHAIN_H
#include <stdbool.h>
bool toolchain_parse(const char *word, unsigned *bits);
const char *toolchain_suggest(const char *word);
#endif
