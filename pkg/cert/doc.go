// Package cert keeps the certificate that a manager's webhooks are called with.
//
// A certificate authority of our own and one serving certificate live in one Secret, which all replicas share: ca.crt
// (the bundle), ca.key (the key of the bundle's newest CA), tls.crt and tls.key. Each replica runs a Keeper. It reads
// the Secret and serves from it, writes the bundle into the webhook configurations and CRDs that call the manager, and
// takes the next step of a rotation when one is due. Replicas need no leader for that: a step is one write of the
// Secret with its resourceVersion, so one of them wins and the others read what it wrote.
//
// A rotation leaves no gap, because trust is spread before it is needed and kept after it was needed:
//
//	step       bundle     served      when
//	Start      CA1        S1 by CA1   there is nothing that works
//	Issue      CA1        S2 by CA1   a third of S1's life is left
//	AddCA      CA1 CA2    S3 by CA1   less than two serving lives of CA1 are left
//	Issue      CA1 CA2    S4 by CA2   every configuration has carried CA2 for the settling time
//	DropCA     CA2        S4          one serving life after CA2 was made: whatever CA1 signed has expired
//
// So an apiserver may lag behind the configurations by the settling time, and a replica behind the Secret for as long as
// a serving certificate lives, and each still verifies the other. How long the bundle has been in force is seen, not
// stored: a replica that restarts counts from anew, which costs a few minutes of a rotation that has months.
//
// A manager outside the cluster is called by URL instead of by Service; the Keeper writes either form.
//
// It keeps no files, so no volume is mounted, and it never makes a configuration or a CRD that is not there: charts do.
// Deleting the Secret makes all of it anew, with a gap of seconds.
package cert
