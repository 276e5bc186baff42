/* SPDX-License-Identifier: Apache-2.0 */
/* embed FILE NAME: prints a file as a C array, for the init program. */
#include <stdio.h>

int main(int argc, char **argv)
{
	unsigned long n = 0;
	int c;

	if (argc != 3)
		return 2;
	FILE *f = fopen(argv[1], "rb");
	if (!f) {
		perror(argv[1]);
		return 1;
	}
	printf("/* Made by tools/embed. */\n#include \"engine/launch.h\"\n\n"
	       "const unsigned char %s[] = {", argv[2]);
	while ((c = getc(f)) != EOF)
		printf("%s0x%02x,", n++ % 12 ? " " : "\n\t", c);
	printf("\n};\nconst unsigned %s_len = %lu;\n", argv[2], n);
	return ferror(f) || fclose(f) || n == 0;
}
