// Package reach says why a request to another cluster's apiserver did not get through, in words that the reader can act
// on.
//
// The idea: what goes wrong between two clusters is one of about a dozen things, and each has its own remedy. CauseOf
// finds out which one an error is; Peer.Explain puts it into a sentence, with the names under which the reader set the
// address, the authority and the credential. The sentence is the same for the same cause: it holds no time, no port of
// ours and nothing that the far end said, so that a condition made of it does not change from one try to the next.
//
// What the far end said may hold the credential that it was shown, if it is not what it should be. Scrub takes that out
// of an error's text before the error is logged.
//
// The package opens no connection.
package reach
