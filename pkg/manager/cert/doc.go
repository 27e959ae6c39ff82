// Package cert maintains the serving certificate of a manager's webhooks.
//
// Our own certificate authority and one serving certificate live in one Secret, which all replicas share: ca.crt (the bundle), ca.key (the key
// of the bundle's newest CA), tls.crt and tls.key. Each replica runs a Keeper. It reads the Secret and serves from it, writes the bundle into
// the webhook configurations and CRDs that call the manager, and takes the next step of a rotation when one is due. Replicas need no leader for
// that: a step is one write of the Secret with its resourceVersion, so one of them wins and the others read what it wrote.
//
// A rotation has no gap, because a new CA is distributed before it signs, and an old one is kept until everything it signed has expired:
//
//	step       bundle     served      when
//	Start      CA1        S1 by CA1   there is no usable certificate
//	Issue      CA1        S2 by CA1   a third of S1's life is left
//	AddCA      CA1 CA2    S3 by CA1   less than two serving validities of CA1 are left
//	Issue      CA1 CA2    S4 by CA2   every configuration has carried CA2 for the settling time
//	DropCA     CA2        S4          one serving life after CA2 was made: whatever CA1 signed has expired
//
// So an API server may lag behind the configurations by the settling time, and a replica behind the Secret for as long as a serving certificate
// lives, and verification still succeeds. How long the bundle has been in force is observed, not stored: a restarted replica begins to count
// again, which delays a rotation that takes months by a few minutes.
//
// A manager outside the cluster is called by URL instead of through a Service; the Keeper writes either form.
//
// Instead of holding our own CA, the Secret may belong to another component such as cert-manager. Then a Keeper never writes it, but serves from
// it and distributes its CA.
//
// The package uses no files, so no volume is mounted, and it never creates a configuration or a CRD: charts do. If the Secret is deleted,
// everything is created again, with a gap of seconds.
package cert
