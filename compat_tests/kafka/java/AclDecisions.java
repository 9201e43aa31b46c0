import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Decisions of Kafka's StandardAuthorizer about the sets of ACLs of a file. Words are separated by
 * tabs, enums are their numbers:
 *
 * <pre>
 * set ALLOW_EVERYONE SUPER_USERS
 * acl TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION
 * ask PRINCIPAL HOST OPERATION TYPE NAME
 * any PRINCIPAL HOST OPERATION TYPE
 * </pre>
 *
 * Prints 1 (allowed) or 0 for each "ask" and "any", in one line per set.
 */
public final class AclDecisions {
    private final Map<Uuid, StandardAcl> acls = new LinkedHashMap<>();
    private final StandardAuthorizer authorizer = new StandardAuthorizer();
    private final StringBuilder answers = new StringBuilder();
    private boolean loaded;

    private AclDecisions(String[] words) {
        authorizer.configure(Map.of(
            "node.id", "1",
            StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, words[1],
            StandardAuthorizer.SUPER_USERS_CONFIG, words.length > 2 ? words[2] : ""));
        Plugin.wrapInstance(authorizer, new Metrics(), "authorizer.class.name");
    }

    public static void main(String[] arguments) throws Exception {
        AclDecisions set = null;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "set" -> {
                    if (set != null) {
                        System.out.println(set.answers);
                    }
                    set = new AclDecisions(words);
                }
                case "acl" -> set.add(words);
                case "ask" -> set.ask(words);
                default -> set.askAny(words);
            }
        }
        System.out.println(set.answers);
    }

    private void add(String[] words) {
        acls.put(Uuid.randomUuid(), new StandardAcl(
            ResourceType.fromCode(code(words[1])), words[2], PatternType.fromCode(code(words[3])), words[4], words[5],
            AclOperation.fromCode(code(words[6])), AclPermissionType.fromCode(code(words[7]))));
    }

    private void ask(String[] words) throws Exception {
        load();
        ResourcePattern resource =
            new ResourcePattern(ResourceType.fromCode(code(words[4])), words[5], PatternType.LITERAL);
        Action action = new Action(AclOperation.fromCode(code(words[3])), resource, 1, true, true);
        note(authorizer.authorize(new Client(words[1], words[2]), List.of(action)).get(0));
    }

    private void askAny(String[] words) throws Exception {
        load();
        note(authorizer.authorizeByResourceType(
            new Client(words[1], words[2]), AclOperation.fromCode(code(words[3])), ResourceType.fromCode(code(words[4]))));
    }

    private void load() {
        if (!loaded) {
            authorizer.loadSnapshot(acls);
            authorizer.completeInitialLoad();
            loaded = true;
        }
    }

    private void note(AuthorizationResult result) {
        answers.append(result == AuthorizationResult.ALLOWED ? '1' : '0');
    }

    private static byte code(String word) {
        return Byte.parseByte(word);
    }

    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        Client(String principal, String host) throws Exception {
            this(SecurityUtils.parseKafkaPrincipal(principal), InetAddress.getByName(host));
        }

        @Override public String listenerName() {
            return "SASL_SSL";
        }

        @Override public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_SSL;
        }

        @Override public int requestType() {
            return 0;
        }

        @Override public int requestVersion() {
            return 9;
        }

        @Override public String clientId() {
            return "client";
        }

        @Override public int correlationId() {
            return 1;
        }
    }
}
