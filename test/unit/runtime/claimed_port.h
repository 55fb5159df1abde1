// Ports of loopback for tests that run beside others.
#ifndef HYC_TEST_RUNTIME_CLAIMED_PORT_H_
#define HYC_TEST_RUNTIME_CLAIMED_PORT_H_

// One that nobody listens at and that no other test is given as long as this process lives. The system gives ports of
// another range to connections.
int claimPort();

#endif  // HYC_TEST_RUNTIME_CLAIMED_PORT_H_
