// Package testenv gives tests what they need from the machine they run on.
//
// A test that needs more than Go, such as a network namespace, asks for it with
// [Need]; where TENURE_REQUIRE names it, a missing thing fails the test instead
// of leaving it out. [Binary] builds the tenure command once for a test process.
// A real NATS server is in the sub-package natstest.
package testenv
