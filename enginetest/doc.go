// Package enginetest is the conformance suite of Tenure: what every
// [tenure.Engine] has to do, as numbered, named cases.
//
// [Run] opens a fresh engine for each case. Those that need a capability which
// the engine does not claim ([tenure.Caps]), or something that the [Subject]
// does not offer, are left out, and the log says which: an engine that claims
// less is asked less, and what it claims it is held to. [RunInBubble] does the
// same inside testing/synctest, for engines that live in one process: hours
// pass in no time, and moments are exact. [Histories] plays random histories
// on the engine and on the law in package kernel, and compares every answer.
//
// A case says in one sentence what is given, what happens, and what then holds.
// It judges time one way only: what must not be early is measured, against
// moments at which the suite itself sent something; what is late fails only
// when it is hopelessly late.
package enginetest
