"""Who may use a schema registry, and for what.

`BasicAuthenticator` reads HTTP basic authentication; a login is checked against a file of users
(`users_file`) or by a SASL login at the broker (`broker_login`). `TopicAuthorizer` decides by the
ACLs of the broker, which `BrokerAcls` reads again and again.
"""
