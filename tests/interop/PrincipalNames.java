import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.HexFormat;

import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Reads lines "RULES tab CERTIFICATE" (in hex), and prints the subject, a tab, and the user's name by the rules. */
public class PrincipalNames {
    public static void main(String[] arguments) throws Exception {
        CertificateFactory certificates = CertificateFactory.getInstance("X.509");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            byte[] der = HexFormat.of().parseHex(fields[1]);
            X509Certificate certificate =
                (X509Certificate) certificates.generateCertificate(new ByteArrayInputStream(der));
            String subject = certificate.getSubjectX500Principal().getName();
            out.println(subject + "\t" + user(fields[0], subject));
        }
    }

    private static String user(String rules, String subject) {
        try {
            return SslPrincipalMapper.fromRules(rules).getName(subject);
        } catch (java.io.IOException nothingMatches) {
            return "-";
        }
    }
}
