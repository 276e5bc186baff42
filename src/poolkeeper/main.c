/* SPDX-License-Identifier: Apache-2.0 */
/* brig-pool: keeps containers waiting.  Started by the docker backend with the
 * recipe at descriptor 3 and an empty environment. */
#include "backend/docker_engine.h"

int main(void)
{
	return docker_keeper_main(3);
}
